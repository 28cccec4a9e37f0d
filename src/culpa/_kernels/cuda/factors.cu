// Steps by factors of the covariance, those of `factored_steps.py`, for tiny noise. When feature j = m - 1 joins, with f = L_j:
//
//     v_e = D_e f_e,  t_e = psi + v_e f_e + ... + v_j f_j,  pull_e = f_e / t_(e+1),  variance = t_0,  inverse = 1 / variance
//     gain_a = (L v)_a inverse,  u = Q v inverse,  M_ee = 1,  M_ie = -v_i pull_e for i > e
//     L <- L M,  Q <- M^T Q M,  D_e <- D_e t_(e+1) / t_e
//     delta_a <- delta_a - gain_a delta_j,  s <- M^T (s + u delta_j)
//     value <- value + 2 inverse delta_j (v^T (s + u delta_j) + kappa delta_j) - (v^T u + a psi),  kappa = (a psi - v^T u) / 2
//
// A row is updated from j to 0. Then M^T takes two multiply-adds for each feature, and v^T (s + u delta_j) is the last of the
// sums that it needs. Q is updated in the same order, with
//
//     h_ie = sum of Q_ik v_k over k > e,  X_ie = Q_ie - pull_e h_ie,  Q_ie <- X_ie - pull_i G_ie,  G_ie = sum of v_k X_ke over k > i

template <int M> struct Pairs { double L[n_cells(M) + 1], Q[n_cells(M) + 1], D[M + 1]; };

// Of the join of feature M - 1; of j itself only u and v count.
template <int M> struct Numbers { double kappa, gain[M], u[M], pull[M], v[M]; };
template <int M> struct Step : Numbers<M> { double inverse, constant; };
template <int M> struct Record : Numbers<M> { double member, common; };

template <int M> INLINE void load_pairs(const Source &source, Pairs<M> &s) {
#pragma unroll
  for (int a = 0; a < M; a++) {
#pragma unroll
    for (int e = 0; e <= a; e++) {
      const Two both = source.pairs[cell(a, e) * source.pair_stride];
      s.L[cell(a, e)] = both.x;
      s.Q[cell(a, e)] = both.y;
    }
    s.D[a] = source.pairs[cell(a, a + 1) * source.pair_stride].x;
  }
}

template <int M> INLINE void store_pairs(Two *target, const Pairs<M> &s) {
#pragma unroll
  for (int a = 0; a < M; a++) {
#pragma unroll
    for (int e = 0; e <= a; e++) target[cell(a, e)] = Two{s.L[cell(a, e)], s.Q[cell(a, e)]};
    target[cell(a, a + 1)] = Two{s.D[a], 0.0};
  }
}

template <int M> INLINE void skip_pairs(const Pairs<M> &s, Pairs<M - 1> &t) {
#pragma unroll
  for (int i = 0; i < n_cells(M - 1); i++) {
    t.L[i] = s.L[i];
    t.Q[i] = s.Q[i];
  }
#pragma unroll
  for (int a = 0; a < M - 1; a++) t.D[a] = s.D[a];
}

// The step of feature M - 1, and the state after it.
template <int M> INLINE void join_pairs(const Pairs<M> &s, const Constants &constants, Step<M> &step, Pairs<M - 1> &t) {
  constexpr int j = M - 1;
  double sum = constants.psi, inverse = 0.0, G[M], below[M];  // below_e: sum of v_k Q_ke over k > i
#pragma unroll
  for (int e = j; e >= 0; e--) {
    const double f = s.L[cell(j, e)], before = sum;
    step.v[e] = s.D[e] * f;
    step.pull[e] = f * inverse;
    sum += step.v[e] * f;
    inverse = reciprocal(sum);
    if (e < j) t.D[e] = s.D[e] * (before * inverse);
    G[e] = below[e] = 0.0;
  }
  double vu = 0.0;
#pragma unroll
  for (int i = j; i >= 0; i--) {
    double h = below[i], Lv = 0.0;
#pragma unroll
    for (int e = i; e >= 0; e--) {
      const double L = s.L[cell(i, e)], Q = s.Q[cell(i, e)], X = Q - step.pull[e] * h;
      if (i < j) {
        t.L[cell(i, e)] = L - step.pull[e] * Lv;
        t.Q[cell(i, e)] = X - step.pull[i] * G[e];
      }
      G[e] += step.v[i] * X;
      below[e] += step.v[i] * Q;
      h += Q * step.v[e];
      Lv += L * step.v[e];
    }
    step.u[i] = h * inverse;
    step.gain[i] = Lv * inverse;
    vu += step.v[i] * step.u[i];
  }
  step.inverse = inverse;
  step.kappa = 0.5 * (constants.a_psi - vu);
  step.constant = constants.a_psi + vu;
}

// Feature M - 1 of a row joins. Returns the change of value without the constant, before it is multiplied by 2 / variance.
template <int M> INLINE double change_of(const Linear<M> &x, const Numbers<M> &step, Linear<M - 1> &y) {
  constexpr int j = M - 1;
  const double delta = x.delta[j];
  double sum = step.v[j] * (x.h[j] + step.u[j] * delta);
#pragma unroll
  for (int a = j - 1; a >= 0; a--) {
    const double s = x.h[a] + step.u[a] * delta;
    y.delta[a] = x.delta[a] - step.gain[a] * delta;
    y.h[a] = s - step.pull[a] * sum;
    sum += step.v[a] * s;
  }
  return delta * (sum + step.kappa * delta);
}

template <int M> INLINE void join_row(const Row<M> &x, const Step<M> &step, Row<M - 1> &y) {
  const double twice = step.inverse + step.inverse;
  y.value = (x.value - step.constant) + twice * change_of<M>(x, step, y);
}

// ------------------------------------------------------------------------------------------------------- many rows

// The change of value that is the same for all rows.
template <int M> INLINE double constant_of(const Step<M> &step) { return -step.constant; }

// (kappa, 2 m inverse), (2 b inverse, nothing), (u_j, v_j), and (gain_a, u_a), (pull_a, v_a) of each feature a that waits. The
// weighted change of the last feature is delta_0 times a sum of s_0 and delta_0, so its record has the weights of these two.
template <int M> INLINE void store_record(Two *table, const Step<M> &step, const double member, const double common) {
  constexpr int j = M - 1;
  const double twice = step.inverse + step.inverse;
  if constexpr (M == 1) {
    table[0] = Two{member * twice * step.v[0], member * twice * (step.kappa + step.v[0] * step.u[0])};
    return;
  }
  table[0] = Two{step.kappa, member * twice};
  table[SIDE] = Two{common * twice, 0.0};
  table[2 * SIDE] = Two{step.u[j], step.v[j]};
#pragma unroll
  for (int a = 0; a < j; a++) {
    table[(3 + 2 * a) * SIDE] = Two{step.gain[a], step.u[a]};
    table[(4 + 2 * a) * SIDE] = Two{step.pull[a], step.v[a]};
  }
}

template <int M> INLINE void load_record(const Two *table, const int stride, Record<M> &record) {
  constexpr int j = M - 1;
  const Two first = table[0];
  if constexpr (M == 1) {
    record.v[0] = first.x;
    record.kappa = first.y;
    record.member = 1.0;
    return;
  }
  const Two own = table[2 * stride];
  record.kappa = first.x;
  record.member = first.y;
  record.common = table[stride].x;
  record.u[j] = own.x;
  record.v[j] = own.y;
#pragma unroll
  for (int a = 0; a < j; a++) {
    const Two one = table[(3 + 2 * a) * stride], other = table[(4 + 2 * a) * stride];
    record.gain[a] = one.x;
    record.u[a] = one.y;
    record.pull[a] = other.x;
    record.v[a] = other.y;
  }
}

// The change, which the record's weights turn into that of the value, less its constant.
template <int M> INLINE double join_linear(const Linear<M> &x, const Record<M> &record, Linear<M - 1> &y) {
  if constexpr (M == 1)
    return x.delta[0] * (record.v[0] * x.h[0] + record.kappa * x.delta[0]);
  else
    return change_of<M>(x, record, y);
}

// --------------------------------------------------------------------------------------------- the first players

// Feature j decides: see `tree.cu`. There is one thread for each coalition, which leaves the step for the rows in `steps`:
// (gain_e, u_e), (pull_e, v_e) and room for sums of each feature e, then (2 inverse, kappa) and (constant, nothing).
// Numbers are loaded AT_ONCE at a time, because a load that follows a store waits for it.
constexpr int AT_ONCE = 4;
struct StepAt {
  Two *steps;
  long long N;
  INLINE Two &operator()(int e, int which) const { return steps[(3 * e + which) * N]; }
};

extern "C" __global__ void __launch_bounds__(THREADS) expand_pairs(Two *pairs, Two *steps, const long long *pairs_at,
    const long long *columns, long long N, int j, long long follows, double psi, double a_psi) {
  const long long c = thread(), target = follows ? 0 : N;
  if (c >= N || c < follows) return;
  const StepAt step{steps + c, N};
  double sum = psi, inverse = 0.0;
  for (int e = j; e >= 0; e--) {
    Two *own = pairs + pairs_at[e] + (e + 1) * columns[e] + c;
    const double f = pairs[pairs_at[j] + e * columns[j] + c].x, D = own->x, v = D * f, before = sum;
    step(e, 1) = Two{f * inverse, v};
    step(e, 2) = Two{0.0, 0.0};
    sum += v * f;
    inverse = reciprocal(sum);
    if (e < j) own[target] = Two{D * (before * inverse), 0.0};
  }
  double vu = 0.0;
  for (int i = j; i >= 0; i--) {
    Two *row = pairs + pairs_at[i] + c;
    const double pull_i = step(i, 1).x, v_i = step(i, 1).y;
    double h = step(i, 2).y, Lv = 0.0;
    for (int last = i; last >= 0; last -= AT_ONCE) {
      Two pair[AT_ONCE], own[AT_ONCE], sums[AT_ONCE];
#pragma unroll
      for (int k = 0; k < AT_ONCE; k++) {
        const int e = last >= k ? last - k : 0;
        pair[k] = row[e * columns[i]];
        own[k] = step(e, 1);
        sums[k] = step(e, 2);
      }
#pragma unroll
      for (int k = 0; k < AT_ONCE; k++) {
        const int e = last - k;
        if (e < 0) break;
        const double L = pair[k].x, Q = pair[k].y, pull = own[k].x, v = own[k].y, X = Q - pull * h;
        if (i < j) row[e * columns[i] + target] = Two{L - pull * Lv, X - pull_i * sums[k].x};
        step(e, 2) = Two{sums[k].x + v_i * X, sums[k].y + v_i * Q};
        h += Q * v;
        Lv += L * v;
      }
    }
    step(i, 0) = Two{Lv * inverse, h * inverse};
    vu += v_i * (h * inverse);
  }
  step(j + 1, 0) = Two{inverse + inverse, 0.5 * (a_psi - vu)};
  step(j + 1, 1) = Two{a_psi + vu, 0.0};
}

extern "C" __global__ void __launch_bounds__(THREADS) expand_rows(const Two *pairs, const Two *steps, Two *rows,
    const long long *pairs_at, const long long *rows_at, const long long *columns, long long N, int n, int j, long long follows) {
  const long long place = thread(), c = place / n, target = (follows ? 0 : N) * n;
  if (c >= N || c < follows) return;
  const StepAt step{(Two *)steps + c, N};
  const double delta = rows[rows_at[j] * n + place].x;
  double sum = 0.0;
  for (int a = j; a >= 0; a--) {
    const Two one = step(a, 0), other = step(a, 1);
    Two *own = rows + rows_at[a] * n + place;
    const double s = own->y + one.y * delta;
    if (a < j) own[target] = Two{own->x - one.x * delta, s - other.x * sum};
    sum += other.y * s;
  }
  const Two last = step(j + 1, 0);
  rows[target + place] = Two{(rows[place].x - step(j + 1, 1).x) + last.x * (delta * (sum + last.y * delta)), 0.0};
}
