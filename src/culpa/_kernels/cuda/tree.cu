// Exact Shapley values on a GPU: the walk over the tree of all coalitions.
//
// `tree.py` launches this file, and docs/gpu.md explains it. How a feature joins is defined by the steps in front of this
// file, `elimination.cu` or `factors.cu`.
//
// The first players decide breadth first, with the states of all their coalitions in memory. Feature j decides in N states. If
// it is the first of a player, each state c becomes two: c itself, in which it waits no longer, and N + c, in which it has
// joined. If it is not, it does as the player does: `follows` states are without it, and in the others it joins. That is
// `expand_pairs` and `expand_rows` of the steps.
//
// The last players, single features, are walked depth first, the last few of them in registers:
//
//     one row    `walk`, one thread per coalition; BOTTOM players depth first, IN_REGISTERS of them in registers
//     many rows  `tabulate` writes the numbers of every step that rows need, once for all rows;
//                `walk_rows`, one thread per coalition and ROWS rows, reads them; ROWS_BOTTOM players depth first
//
// Sums are those with the member weights. Values add up to what the full coalition is worth, which gives the sum with the
// common weights (see `tree.py`).

// ---------------------------------------------------------------------------------------------------------- one row

// Coalitions that extend the given one. Returns the sum of their weighted values, which belongs to the members above.
template <int M> struct InRegisters {
  static INLINE double walk(const Pairs<M> &s, const Row<M> &x, const Constants &constants, const double *member,
                            double (&own)[BOTTOM], const int size) {
    Step<M> step;
    Pairs<M - 1> t;
    Row<M - 1> y;
    join_pairs<M>(s, constants, step, t);
    join_row<M>(x, step, y);
    double with = member[size + 1] * y.value;
    if constexpr (M > 1) with += InRegisters<M - 1>::walk(t, y, constants, member, own, size + 1);
    own[M - 1] += with;
    if constexpr (M > 1) {
      Pairs<M - 1> u;
      skip_pairs<M>(s, u);
      Row<M - 1> z;
      skip_row<M>(x, z);
      with += InRegisters<M - 1>::walk(u, z, constants, member, own, size);
    }
    return with;
  }
};

template <int M> INLINE void load_and_join(const Source &source, const Constants &constants, Pairs<M - 1> &t, Row<M - 1> &y) {
  Pairs<M> s;
  Row<M> x;
  Step<M> step;
  load_pairs<M>(source, s);
  load_row<M>(source, 0, x);
  join_pairs<M>(s, constants, step, t);
  join_row<M>(x, step, y);
}

template <int M>
INLINE double walk_from(const Source &source, const Constants &constants, const double *member, double (&own)[BOTTOM],
                        const int size) {
  double all = 0.0;
  if constexpr (M == IN_REGISTERS) {  // only if nobody is left to walk depth first
    Pairs<M> s;
    Row<M> x;
    load_pairs<M>(source, s);
    load_row<M>(source, 0, x);
    all = InRegisters<M>::walk(s, x, constants, member + size, own, 0);
  } else if constexpr (M == IN_REGISTERS + 1) {
#pragma unroll 1
    for (int joins = 1; joins >= 0; joins--) {
      Pairs<M - 1> t;
      Row<M - 1> y;
      double here = 0.0;
      if (joins) {
        load_and_join<M>(source, constants, t, y);
        here = member[size + 1] * y.value;
      } else {
        load_pairs<M - 1>(source, t);
        load_row<M - 1>(source, 0, y);
      }
      double m[M];
#pragma unroll
      for (int i = 0; i < M; i++) m[i] = member[size + joins + i];
      here += InRegisters<M - 1>::walk(t, y, constants, m, own, 0);
      if (joins) own[M - 1] += here;
      all += here;
    }
  } else {
    Two near[n_cells(M - 1) + M];
#pragma unroll 1
    for (int joins = 1; joins >= 0; joins--) {
      Source next = source;
      double here = 0.0;
      if (joins) {
        Pairs<M - 1> t;
        Row<M - 1> y;
        load_and_join<M>(source, constants, t, y);
        store_pairs<M - 1>(near, t);
        store_row<M - 1, 1>(near + n_cells(M - 1), 0, y);
        next = Source{near, near + n_cells(M - 1), 1, 1};
        here = member[size + 1] * y.value;
      }
      here += walk_from<M - 1>(next, constants, member, own, size + joins);
      if (joins) own[M - 1] += here;
      all += here;
    }
  }
  return all;
}

// sums[place * n_sums] collects: the last players (who decides last first), the players in bits of `above`.
template <int M> INLINE void add_up(double *sums, long long n_sums, const double (&own)[M], double all, long long above) {
#pragma unroll
  for (int i = 0; i < M; i++) sums[i * n_sums] += own[i];
  for (int i = 0; above >> i; i++)
    if (above >> i & 1) sums[(M + i) * n_sums] += all;
}

// `slots` threads work side by side. `above` says who of the players above is in. all[c] collects the weighted values of
// coalition c and of those that extend it.
extern "C" __global__ void __launch_bounds__(THREADS) walk(const Two *pairs, const Two *rows, long long N, int slots,
    long long above, double psi, double a_psi, const double *member, double *all, double *sums) {
  if (thread() >= slots) return;
  const Constants constants{psi, a_psi};
  double own[BOTTOM], total = 0.0;
#pragma unroll
  for (int i = 0; i < BOTTOM; i++) own[i] = 0.0;
#pragma unroll 1
  for (long long c = thread(); c < N; c += slots) {
    const int size = members(c) + members(above);
    const Source source = {pairs + c, rows + c, N, N};
    const double here = member[size] * rows[c].x + walk_from<BOTTOM>(source, constants, member, own, size);
    all[c] += here;
    total += here;
  }
  add_up<BOTTOM>(sums + thread(), slots, own, total, above);
}

// Nobody is left to walk depth first: all coalitions are in memory.
extern "C" __global__ void __launch_bounds__(THREADS) count(const Two *rows, long long N, int n, int slots, long long above,
    const double *member, double *all, double *sums) {
  const long long slot = thread() / n;
  const int r = (int)(thread() % n);
  if (slot >= slots) return;
  double total = 0.0;
  for (long long c = slot; c < N; c += slots) {
    const double here = member[members(c) + members(above)] * rows[c * n + r].x;
    total += here;
    all[c * n + r] += here;
  }
  for (int i = 0; above >> i; i++)
    if (above >> i & 1) sums[(i * (long long)slots + slot) * n + r] += total;
}
