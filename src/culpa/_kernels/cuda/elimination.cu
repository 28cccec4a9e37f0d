// Steps by Gaussian elimination, those of `elimination_steps.py`. When feature j = m - 1 joins:
//
//     inverse = 1 / V_jj,  kappa = K_jj inverse,  gain_a = V_ja inverse,  shift_a = K_ja - kappa V_ja,  g = delta_j inverse
//     V_ae <- V_ae - gain_a V_je,         K_ae <- K_ae - gain_a K_je - shift_a gain_e
//     delta_a <- delta_a - gain_a delta_j,  h_a <- h_a - gain_a h_j - 2 shift_a g
//     value <- value - g (h_j - kappa delta_j) - kappa
//
// where h = -2 c. Only delta, h and the value belong to a row.

template <int M> struct Pairs { double V[n_cells(M) + 1], K[n_cells(M) + 1]; };
template <int M> struct Step { double inverse, kappa, gain[M], shift[M]; };  // of the join of feature M - 1
template <int M> struct Record { double kappa, member, common, gain[M], shift[M]; };

template <int M> INLINE void load_pairs(const Source &source, Pairs<M> &s) {
#pragma unroll
  for (int i = 0; i < n_cells(M); i++) {
    const Two both = source.pairs[i * source.pair_stride];
    s.V[i] = both.x;
    s.K[i] = both.y;
  }
}

template <int M> INLINE void store_pairs(Two *target, const Pairs<M> &s) {
#pragma unroll
  for (int i = 0; i < n_cells(M); i++) target[i] = Two{s.V[i], s.K[i]};
}

template <int M> INLINE void skip_pairs(const Pairs<M> &s, Pairs<M - 1> &t) {
#pragma unroll
  for (int i = 0; i < n_cells(M - 1); i++) {
    t.V[i] = s.V[i];
    t.K[i] = s.K[i];
  }
}

// The step of feature M - 1, and the state after it.
template <int M> INLINE void join_pairs(const Pairs<M> &s, const Constants &, Step<M> &step, Pairs<M - 1> &t) {
  constexpr int j = M - 1;
  step.inverse = reciprocal(s.V[cell(j, j)]);
  step.kappa = s.K[cell(j, j)] * step.inverse;
#pragma unroll
  for (int a = 0; a < j; a++) {
    step.gain[a] = s.V[cell(j, a)] * step.inverse;
    step.shift[a] = s.K[cell(j, a)] - step.kappa * s.V[cell(j, a)];
  }
#pragma unroll
  for (int a = 0; a < j; a++)
#pragma unroll
    for (int e = 0; e <= a; e++) {
      t.V[cell(a, e)] = s.V[cell(a, e)] - step.gain[a] * s.V[cell(j, e)];
      t.K[cell(a, e)] = s.K[cell(a, e)] - step.gain[a] * s.K[cell(j, e)] - step.shift[a] * step.gain[e];
    }
}

template <int M> INLINE void join_row(const Row<M> &x, const Step<M> &step, Row<M - 1> &y) {
  constexpr int j = M - 1;
  const double g = x.delta[j] * step.inverse, twice_g = g + g;
  y.value = (x.value - step.kappa) - g * (x.h[j] - step.kappa * x.delta[j]);
#pragma unroll
  for (int a = 0; a < j; a++) {
    y.delta[a] = x.delta[a] - step.gain[a] * x.delta[j];
    y.h[a] = (x.h[a] - step.gain[a] * x.h[j]) - step.shift[a] * twice_g;
  }
}

// ------------------------------------------------------------------------------------------------------- many rows

// The change of value that is the same for all rows.
template <int M> INLINE double constant_of(const Step<M> &step) { return -step.kappa; }

// (kappa, -m inverse), (-b inverse, nothing), and (gain_a, 2 shift_a inverse) of each feature a that waits; of the last
// feature only the first.
template <int M> INLINE void store_record(Two *table, const Step<M> &step, const double member, const double common) {
  const double twice = step.inverse + step.inverse;
  table[0] = Two{step.kappa, -member * step.inverse};
  if constexpr (M > 1) table[SIDE] = Two{-common * step.inverse, 0.0};
#pragma unroll
  for (int a = 0; a < M - 1; a++) table[(2 + a) * SIDE] = Two{step.gain[a], step.shift[a] * twice};
}

template <int M> INLINE void load_record(const Two *table, const int stride, Record<M> &record) {
  const Two first = table[0];
  record.kappa = first.x;
  record.member = first.y;
  if constexpr (M > 1) record.common = table[stride].x;
#pragma unroll
  for (int a = 0; a < M - 1; a++) {
    const Two both = table[(2 + a) * stride];
    record.gain[a] = both.x;
    record.shift[a] = both.y;
  }
}

// Feature M - 1 of a row joins. Returns the change, which the record's weights turn into that of the value, less its constant.
template <int M> INLINE double join_linear(const Linear<M> &x, const Record<M> &record, Linear<M - 1> &y) {
  constexpr int j = M - 1;
#pragma unroll
  for (int a = 0; a < j; a++) {
    y.delta[a] = x.delta[a] - record.gain[a] * x.delta[j];
    y.h[a] = (x.h[a] - record.gain[a] * x.h[j]) - record.shift[a] * x.delta[j];
  }
  return x.delta[j] * (x.h[j] - record.kappa * x.delta[j]);
}

// --------------------------------------------------------------------------------------------- the first players

// Feature j decides: see `tree.cu`. There is one thread for each coalition and each feature a that waits. Threads of a tile
// share coalitions, so that what they read is near. Each computes what it needs of the step, so nothing is kept in `steps`.
constexpr int TILE = 128;
struct Pivot { double inverse, kappa; };

INLINE Pivot pivot_of(const Two *pairs, const long long *pairs_at, const long long *columns, int j, long long c) {
  const Two both = pairs[pairs_at[j] + j * columns[j] + c];
  const double inverse = reciprocal(both.x);
  return Pivot{inverse, both.y * inverse};
}

extern "C" __global__ void __launch_bounds__(THREADS) expand_pairs(Two *pairs, Two *steps, const long long *pairs_at,
    const long long *columns, long long N, int j, long long follows, double psi, double a_psi) {
  const unsigned tile = thread() / TILE, a = tile % j;
  const long long c = tile / j * (long long)TILE + thread() % TILE;
  if (c >= N || c < follows) return;
  const Pivot pivot = pivot_of(pairs, pairs_at, columns, j, c);
  const Two *row_j = pairs + pairs_at[j] + c;
  Two *row_a = pairs + pairs_at[a] + c;
  const long long of_j = columns[j], of_a = columns[a], target = follows ? 0 : N;
  const Two own = row_j[a * of_j];
  const double gain = own.x * pivot.inverse, shift = own.y - pivot.kappa * own.x;
  for (int e = 0; e <= (int)a; e++) {
    const Two je = row_j[e * of_j], ae = row_a[e * of_a];
    row_a[e * of_a + target] = Two{ae.x - gain * je.x, ae.y - gain * je.y - shift * (je.x * pivot.inverse)};
  }
}

extern "C" __global__ void __launch_bounds__(THREADS) expand_rows(const Two *pairs, const Two *steps, Two *rows,
    const long long *pairs_at, const long long *rows_at, const long long *columns, long long N, int n, int j, long long follows) {
  const unsigned tile = thread() / TILE, a = tile % (j + 1);
  const unsigned place = tile / (j + 1) * TILE + thread() % TILE;
  const long long c = place / (unsigned)n, target = (follows ? 0 : N) * n;
  if (c >= N || c < follows) return;
  const Pivot pivot = pivot_of(pairs, pairs_at, columns, j, c);
  const Two of_j = rows[rows_at[j] * n + place];
  const double g = of_j.x * pivot.inverse;
  if ((int)a == j) {
    const double value = rows[place].x;
    rows[target + place] = Two{(value - pivot.kappa) - g * (of_j.y - pivot.kappa * of_j.x), 0.0};
  } else {
    const Two pair = pairs[pairs_at[j] + a * columns[j] + c];
    const double gain = pair.x * pivot.inverse, shift = pair.y - pivot.kappa * pair.x;
    Two *own = rows + rows_at[a] * n + place;
    const Two before = own[0];
    own[target] = Two{before.x - gain * of_j.x, before.y - gain * of_j.y - 2.0 * shift * g};
  }
}
