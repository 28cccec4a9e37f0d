// Exact Shapley values on a GPU: the walk over the tree of all coalitions, by Gaussian elimination.
//
// `culpa/_kernels/gpu_tree.py` launches this file, and docs/gpu.md explains it. The step is that of
// `elimination_steps.py`. Features are numbered from the one that decides last, so the features that still wait are always
// 0 to m - 1, and a state of fewer features is the beginning of a longer one. When j = m - 1 joins:
//
//     inverse = 1 / V_jj,  kappa = K_jj inverse,  gain_a = V_ja inverse,  shift_a = K_ja - kappa V_ja,  g = delta_j inverse
//     V_ae <- V_ae - gain_a V_je,         K_ae <- K_ae - gain_a K_je - shift_a gain_e
//     delta_a <- delta_a - gain_a delta_j,  h_a <- h_a - gain_a h_j - 2 shift_a g
//     value <- value - g (h_j - kappa delta_j) - kappa
//
// where h = -2 c. Only delta, h and the value belong to a row.
//
// The first players decide breadth first, with the states of all their coalitions in memory (`expand_pairs`,
// `expand_rows`). The last players, single features, are walked depth first, the last few of them in registers:
//
//     one row    `walk`, one thread per coalition; BOTTOM players depth first, IN_REGISTERS of them in registers
//     many rows  `tabulate` writes gain, shift, inverse and kappa of every step, once for all rows;
//                `walk_rows`, one thread per coalition and ROWS rows, reads them; ROWS_BOTTOM players depth first
//
// Memory: numbers come in twos, (V_ae, K_ae), (delta_a, h_a) and (value, nothing). Of feature a there are as many
// coalitions as have been told apart before it decides, `columns[a]`. (V_ae, K_ae) of coalition c is at
// pairs[pairs_at[a] + e columns[a] + c]; (delta_a, h_a) of row r of n is at rows[(rows_at[a] + c) n + r], and its value at
// rows[c n + r]. For the last players that is pairs[cell(a, e) N + c] and rows[((1 + a) N + c) n + r], N coalitions in all.
//
// The arithmetic is plain C++, so that tests can compile this file for the processor.

#define INLINE __device__ __forceinline__

INLINE constexpr int cell(int a, int e) { return a * (a + 1) / 2 + e; }
INLINE constexpr int n_cells(int m) { return m * (m + 1) / 2; }

struct alignas(16) Two { double x, y; };  // loaded and stored by one instruction

// Two digits short of a division's last, in a third of its time: 20 bits from the processor's table, then a cubic step.
INLINE double reciprocal(double a) {
#ifdef __CUDA_ARCH__
  double x;
  asm("rcp.approx.ftz.f64 %0, %1;" : "=d"(x) : "d"(a));
  const double e = fma(-a, x, 1.0);
  return fma(x, fma(e, e, e), x);
#else
  return 1.0 / a;
#endif
}

template <int M> struct Pairs { double V[M * (M + 1) / 2 + 1], K[M * (M + 1) / 2 + 1]; };
template <int M> struct Row { double delta[M + 1], h[M + 1], value; };
template <int M> struct Step { double inverse, kappa, gain[M], shift[M]; };  // of the join of feature M - 1

// Where a state lies in memory, and how far apart its elements are.
struct Source { const Two *pairs, *rows; long long pair_stride, row_stride; };

template <int M> INLINE void load_pairs(const Source &source, Pairs<M> &s) {
#pragma unroll
  for (int i = 0; i < n_cells(M); i++) {
    const Two both = source.pairs[i * source.pair_stride];
    s.V[i] = both.x;
    s.K[i] = both.y;
  }
}

template <int M> INLINE void load_row(const Source &source, int r, Row<M> &x) {
  x.value = source.rows[r].x;
#pragma unroll
  for (int a = 0; a < M; a++) {
    const Two both = source.rows[(1 + a) * source.row_stride + r];
    x.delta[a] = both.x;
    x.h[a] = both.y;
  }
}

template <int M> INLINE void store_pairs(Two *target, const Pairs<M> &s) {
#pragma unroll
  for (int i = 0; i < n_cells(M); i++) target[i] = Two{s.V[i], s.K[i]};
}

// Element i of the row r of R lies at target[i R + r].
template <int M, int R> INLINE void store_row(Two *target, int r, const Row<M> &x) {
  target[r] = Two{x.value, 0.0};
#pragma unroll
  for (int a = 0; a < M; a++) target[(1 + a) * R + r] = Two{x.delta[a], x.h[a]};
}

template <int M> INLINE void make_step(const Pairs<M> &s, Step<M> &step) {
  constexpr int j = M - 1;
  step.inverse = reciprocal(s.V[cell(j, j)]);
  step.kappa = s.K[cell(j, j)] * step.inverse;
#pragma unroll
  for (int a = 0; a < j; a++) {
    step.gain[a] = s.V[cell(j, a)] * step.inverse;
    step.shift[a] = s.K[cell(j, a)] - step.kappa * s.V[cell(j, a)];
  }
}

template <int M> INLINE void join_pairs(const Pairs<M> &s, const Step<M> &step, Pairs<M - 1> &t) {
  constexpr int j = M - 1;
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

template <int M> INLINE void skip_pairs(const Pairs<M> &s, Pairs<M - 1> &t) {
#pragma unroll
  for (int i = 0; i < M * (M - 1) / 2; i++) {
    t.V[i] = s.V[i];
    t.K[i] = s.K[i];
  }
}

template <int M> INLINE void skip_row(const Row<M> &x, Row<M - 1> &y) {
  y.value = x.value;
#pragma unroll
  for (int a = 0; a < M - 1; a++) {
    y.delta[a] = x.delta[a];
    y.h[a] = x.h[a];
  }
}

// What a thread adds up for a row: the common weights' sum, and the sum of each of the last players.
template <int M> struct Sums { double common, own[M]; };

// ---------------------------------------------------------------------------------------------------------- one row

// Coalitions that extend the given one. Returns the sum of their weighted values, which belongs to the members above.
template <int M> struct InRegisters {
  static INLINE double walk(const Pairs<M> &s, const Row<M> &x, const double *member, const double *common, Sums<BOTTOM> &sums,
                            const int size) {
    Step<M> step;
    make_step<M>(s, step);
    Row<M - 1> y;
    join_row<M>(x, step, y);
    double with = member[size + 1] * y.value;
    sums.common += common[size + 1] * y.value;
    if constexpr (M > 1) {
      Pairs<M - 1> t;
      join_pairs<M>(s, step, t);
      with += InRegisters<M - 1>::walk(t, y, member, common, sums, size + 1);
    }
    sums.own[M - 1] += with;
    if constexpr (M > 1) {
      Pairs<M - 1> u;
      skip_pairs<M>(s, u);
      Row<M - 1> z;
      skip_row<M>(x, z);
      with += InRegisters<M - 1>::walk(u, z, member, common, sums, size);
    }
    return with;
  }
};

template <int M>
INLINE double walk_from(const Source &source, const double *member, const double *common, Sums<BOTTOM> &sums, const int size) {
  double all = 0.0;
  if constexpr (M == IN_REGISTERS) {  // only if nobody is left to walk depth first
    Pairs<M> s;
    Row<M> x;
    load_pairs<M>(source, s);
    load_row<M>(source, 0, x);
    all = InRegisters<M>::walk(s, x, member + size, common + size, sums, 0);
  } else if constexpr (M == IN_REGISTERS + 1) {
#pragma unroll 1
    for (int joins = 1; joins >= 0; joins--) {
      Pairs<M - 1> t;
      Row<M - 1> y;
      double here = 0.0;
      if (joins) {
        Pairs<M> s;
        Row<M> x;
        Step<M> step;
        load_pairs<M>(source, s);
        load_row<M>(source, 0, x);
        make_step<M>(s, step);
        join_pairs<M>(s, step, t);
        join_row<M>(x, step, y);
        here = member[size + 1] * y.value;
        sums.common += common[size + 1] * y.value;
      } else {
        load_pairs<M - 1>(source, t);
        load_row<M - 1>(source, 0, y);
      }
      const int now = size + joins;
      double m[M], b[M];
#pragma unroll
      for (int i = 0; i < M; i++) {
        m[i] = member[now + i];
        b[i] = common[now + i];
      }
      here += InRegisters<M - 1>::walk(t, y, m, b, sums, 0);
      if (joins) sums.own[M - 1] += here;
      all += here;
    }
  } else {
    Two near[n_cells(M - 1) + M];
#pragma unroll 1
    for (int joins = 1; joins >= 0; joins--) {
      Source next = source;
      double here = 0.0;
      if (joins) {
        Pairs<M> s;
        Row<M> x;
        Step<M> step;
        Pairs<M - 1> t;
        Row<M - 1> y;
        load_pairs<M>(source, s);
        load_row<M>(source, 0, x);
        make_step<M>(s, step);
        join_pairs<M>(s, step, t);
        join_row<M>(x, step, y);
        store_pairs<M - 1>(near, t);
        store_row<M - 1, 1>(near + n_cells(M - 1), 0, y);
        next = Source{near, near + n_cells(M - 1), 1, 1};
        here = member[size + 1] * y.value;
        sums.common += common[size + 1] * y.value;
      }
      here += walk_from<M - 1>(next, member, common, sums, size + joins);
      if (joins) sums.own[M - 1] += here;
      all += here;
    }
  }
  return all;
}

INLINE long long thread() { return blockIdx.x * (long long)blockDim.x + threadIdx.x; }
INLINE long long threads() { return gridDim.x * (long long)blockDim.x; }

INLINE int members(long long coalition) {
#ifdef __CUDA_ARCH__
  return __popcll(coalition);
#else
  return __builtin_popcountll(coalition);
#endif
}

// sums[place * n_sums] collects: the common sum, the last players (who decides last first), the players in bits of `above`.
template <int M> INLINE void add_up(double *sums, long long n_sums, const Sums<M> &own, double all, long long above) {
  sums[0] += own.common;
#pragma unroll
  for (int i = 0; i < M; i++) sums[(1 + i) * n_sums] += own.own[i];
  for (int i = 0; above >> i; i++)
    if (above >> i & 1) sums[(1 + M + i) * n_sums] += all;
}

// `slots` threads work side by side. `above` says who of the players above is in. all[c] collects the weighted values of
// coalition c and of those that extend it.
extern "C" __global__ void __launch_bounds__(THREADS) walk(const Two *pairs, const Two *rows, long long N,
    int slots, long long above, const double *member, const double *common, double *all, double *sums) {
  if (thread() >= slots) return;
  Sums<BOTTOM> own;
  own.common = 0.0;
#pragma unroll
  for (int i = 0; i < BOTTOM; i++) own.own[i] = 0.0;
  double total = 0.0;
#pragma unroll 1
  for (long long c = thread(); c < N; c += slots) {
    const int size = members(c) + members(above);
    const Source source = {pairs + c, rows + c, N, N};
    const double value = rows[c].x;
    own.common += common[size] * value;
    const double here = member[size] * value + walk_from<BOTTOM>(source, member, common, own, size);
    all[c] += here;
    total += here;
  }
  add_up<BOTTOM>(sums + thread(), slots, own, total, above);
}

// --------------------------------------------------------------------------------------------- the first players

// Feature j decides in N states. If it is the first of a player, each state c becomes two: c itself, in which it waits no
// longer, and N + c, in which it has joined. If it is not, it does as the player does: `follows` states are without it, and
// in the others it joins. Threads of a tile share coalitions, so that what they read is near.
constexpr int TILE = 128;
struct Deciding { double inverse, kappa; };

INLINE Deciding deciding(const Two *pairs, const long long *pairs_at, const long long *columns, int j, long long c) {
  const Two both = pairs[pairs_at[j] + j * columns[j] + c];
  const double inverse = reciprocal(both.x);
  return Deciding{inverse, both.y * inverse};
}

extern "C" __global__ void __launch_bounds__(THREADS) expand_pairs(Two *pairs, const long long *pairs_at,
    const long long *columns, long long N, int j, long long follows) {
  const unsigned tile = thread() / TILE, a = tile % j;
  const long long c = tile / j * (long long)TILE + thread() % TILE;
  if (c >= N || c < follows) return;
  const Deciding step = deciding(pairs, pairs_at, columns, j, c);
  const Two *row_j = pairs + pairs_at[j] + c;
  Two *row_a = pairs + pairs_at[a] + c;
  const long long of_j = columns[j], of_a = columns[a], target = follows ? 0 : N;
  const Two own = row_j[a * of_j];
  const double gain = own.x * step.inverse, shift = own.y - step.kappa * own.x;
  for (int e = 0; e <= (int)a; e++) {
    const Two je = row_j[e * of_j], ae = row_a[e * of_a];
    row_a[e * of_a + target] = Two{ae.x - gain * je.x, ae.y - gain * je.y - shift * (je.x * step.inverse)};
  }
}

extern "C" __global__ void __launch_bounds__(THREADS) expand_rows(const Two *pairs, Two *rows, const long long *pairs_at,
    const long long *rows_at, const long long *columns, long long N, int n, int j, long long follows) {
  const unsigned tile = thread() / TILE, a = tile % (j + 1);
  const unsigned place = tile / (j + 1) * TILE + thread() % TILE;
  const long long c = place / (unsigned)n, target = (follows ? 0 : N) * n;
  if (c >= N || c < follows) return;
  const Deciding step = deciding(pairs, pairs_at, columns, j, c);
  const Two of_j = rows[rows_at[j] * n + place];
  const double g = of_j.x * step.inverse;
  if ((int)a == j) {
    const double value = rows[place].x;
    rows[target + place] = Two{(value - step.kappa) - g * (of_j.y - step.kappa * of_j.x), 0.0};
  } else {
    const Two pair = pairs[pairs_at[j] + a * columns[j] + c];
    const double gain = pair.x * step.inverse, shift = pair.y - step.kappa * pair.x;
    Two *own = rows + rows_at[a] * n + place;
    const Two before = own[0];
    own[target] = Two{before.x - gain * of_j.x, before.y - gain * of_j.y - 2.0 * shift * g};
  }
}

// Nobody is left to walk depth first: all coalitions are in memory.
extern "C" __global__ void __launch_bounds__(THREADS) count(const Two *rows, long long N, int n, int slots, long long above,
    const double *member, const double *common, double *all, double *sums) {
  const long long slot = thread() / n;
  const int r = (int)(thread() % n);
  if (slot >= slots) return;
  double both[2] = {0.0, 0.0};
  for (long long c = slot; c < N; c += slots) {
    const int size = members(c) + members(above);
    const double value = rows[c * n + r].x;
    both[0] += common[size] * value;
    both[1] += member[size] * value;
    all[c * n + r] += member[size] * value;
  }
  double *mine = sums + slot * n + r;
  mine[0] += both[0];
  for (int i = 0; above >> i; i++)
    if (above >> i & 1) mine[(1 + i) * (long long)slots * n] += both[1];
}
