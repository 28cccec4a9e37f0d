// States of coalitions on a GPU: what the steps (`elimination.cu` or `factors.cu`) and the walks have in common.
//
// Features are numbered from the one that decides last, so the features that still wait are always 0 to m - 1, and a state
// of fewer features is the beginning of a longer one. A state has two numbers for each pair of features, OWN more for each
// feature, and for each row two numbers for each feature and a value:
//
//     steps           pairs       own    of a row
//     by elimination  V_ae, K_ae         delta_a, h_a
//     by factors      L_ae, Q_ae  D_a    delta_a, s_a
//
// Memory: numbers come in twos, of pairs (e = 0 to a), then (own, nothing); of rows as above, and (value, nothing). Of feature
// a there are as many coalitions as have been told apart before it decides, `columns[a]`. Two e of feature a of coalition c
// is at pairs[pairs_at[a] + e columns[a] + c]; that of row r of n is at rows[(rows_at[a] + c) n + r], and its value at
// rows[c n + r]. For the last players that is pairs[cell(a, e) N + c] and rows[((1 + a) N + c) n + r], N coalitions in all.

INLINE constexpr int n_cells(int m) { return m * (m + 1) / 2 + OWN * m; }
INLINE constexpr int cell(int a, int e) { return n_cells(a) + e; }

struct Constants { double psi, a_psi; };  // of steps by factors

template <int M> struct Linear { double delta[M + 1], h[M + 1]; };  // a row without its value; by factors, h is s
template <int M> struct Row : Linear<M> { double value; };

// Where a state lies in memory, and how far apart its elements are.
struct Source { const Two *pairs, *rows; long long pair_stride, row_stride; };

template <int M> INLINE void load_row(const Source &source, int r, Row<M> &x) {
  x.value = source.rows[r].x;
#pragma unroll
  for (int a = 0; a < M; a++) {
    const Two both = source.rows[(1 + a) * source.row_stride + r];
    x.delta[a] = both.x;
    x.h[a] = both.y;
  }
}

// Element i of the row r of R lies at target[i R + r].
template <int M, int R> INLINE void store_row(Two *target, int r, const Row<M> &x) {
  target[r] = Two{x.value, 0.0};
#pragma unroll
  for (int a = 0; a < M; a++) target[(1 + a) * R + r] = Two{x.delta[a], x.h[a]};
}

template <int M> INLINE void skip_row(const Row<M> &x, Row<M - 1> &y) {
  y.value = x.value;
#pragma unroll
  for (int a = 0; a < M - 1; a++) {
    y.delta[a] = x.delta[a];
    y.h[a] = x.h[a];
  }
}

// Records of the joins, for many rows: see `rows.cu`, which says where they lie and what the weights are.
INLINE constexpr int record_size(int m) { return m == 1 ? 1 : (1 + OWN) * m + 1; }  // in twos
