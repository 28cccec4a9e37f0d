// Exact Shapley values on a GPU: the walk over the tree of all coalitions, by Gaussian elimination.
//
// `culpa/_kernels/gpu.py` compiles and launches this file, and docs/gpu.md explains it. The step is that of
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
// twos in the table of all steps from m waiting features on: a record for the join, then both subtrees
INLINE constexpr int table_size(int m) { return m == 0 ? 0 : m + 1 + 2 * table_size(m - 1); }

struct alignas(16) Two { double x, y; };  // loaded and stored by one instruction
constexpr int SIDE = 2;  // tables of so many coalitions are interleaved, so that threads fill whole sectors of memory

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

// ------------------------------------------------------------------------------------------------------- many rows

// What a coalition is worth is what its members changed, one after the other. A change counts for all coalitions of the
// subtree below it. To a player who waits, it makes no difference: it is there with the player and without. So it counts for
// the players who have decided, with m for those who joined and with -b for everybody, where m and b are the sums of the member
// weights and of the common weights in the subtree. They depend on the size of the coalition and on how many players wait:
// member[waiting * width + size]. A step's record has
//
//     (kappa, K_jj), (-m inverse, -b inverse), and (gain_a, 2 shift_a inverse) of each feature that waits
//
// so that a join takes delta_j (h_j - kappa delta_j) + K_jj times these weights, and three multiply-adds for each feature.
template <int M> struct Linear { double delta[M + 1], h[M + 1]; };  // a row, without its value
template <int M> struct Record { double kappa, K, member, common, gain[M], shift[M]; };
struct Weights { const double *member, *common; int width; };

template <int M> INLINE void store_record(Two *table, const Pairs<M> &s, const Step<M> &step, const Weights &weights, int size) {
  const double minus = -step.inverse, twice = step.inverse + step.inverse;
  const int at = (M - 1) * weights.width + size + 1;
  table[0] = Two{step.kappa, s.K[cell(M - 1, M - 1)]};
  table[SIDE] = Two{weights.member[at] * minus, weights.common[at] * minus};
#pragma unroll
  for (int a = 0; a < M - 1; a++) table[(2 + a) * SIDE] = Two{step.gain[a], step.shift[a] * twice};
}

template <int M> INLINE void load_record(const Two *table, Record<M> &record) {
  const Two first = table[0], second = table[SIDE];
  record.kappa = first.x;
  record.K = first.y;
  record.member = second.x;
  record.common = second.y;
#pragma unroll
  for (int a = 0; a < M - 1; a++) {
    const Two both = table[(2 + a) * SIDE];
    record.gain[a] = both.x;
    record.shift[a] = both.y;
  }
}

INLINE long long table_at(long long c) { return c / SIDE * SIDE * table_size(ROWS_BOTTOM) + c % SIDE; }

template <int M> struct TableInRegisters {
  static INLINE void write(const Pairs<M> &s, Two *table, const Weights &weights, const int size) {
    Step<M> step;
    make_step<M>(s, step);
    store_record<M>(table, s, step, weights, size);
    if constexpr (M > 1) {
      Pairs<M - 1> t;
      join_pairs<M>(s, step, t);
      TableInRegisters<M - 1>::write(t, table + SIDE * (M + 1), weights, size + 1);
      Pairs<M - 1> u;
      skip_pairs<M>(s, u);
      TableInRegisters<M - 1>::write(u, table + SIDE * (M + 1 + table_size(M - 1)), weights, size);
    }
  }
};

template <int M> INLINE void table_from(const Source &source, Two *table, const Weights &weights, const int size) {
  if constexpr (M <= IN_REGISTERS) {
    Pairs<M> s;
    load_pairs<M>(source, s);
    TableInRegisters<M>::write(s, table, weights, size);
  } else {
    Two near[n_cells(M - 1)];
#pragma unroll 1
    for (int joins = 1; joins >= 0; joins--) {
      Source next = source;
      if (joins) {
        Pairs<M> s;
        Step<M> step;
        Pairs<M - 1> t;
        load_pairs<M>(source, s);
        make_step<M>(s, step);
        store_record<M>(table, s, step, weights, size);
        join_pairs<M>(s, step, t);
        store_pairs<M - 1>(near, t);
        next = Source{near, nullptr, 1, 1};
      }
      table_from<M - 1>(next, table + SIDE * (M + 1 + (joins ? 0 : table_size(M - 1))), weights, size + joins);
    }
  }
}

extern "C" __global__ void __launch_bounds__(THREADS) tabulate(const Two *pairs, long long N, long long above,
    const double *member, const double *common, int width, Two *tables) {
#pragma unroll 1
  for (long long c = thread(); c < N; c += threads())
    table_from<ROWS_BOTTOM>(Source{pairs + c, nullptr, N, 1}, tables + table_at(c), Weights{member, common, width},
                            members(c) + members(above));
}

// Of a row: for each of the last players, the weighted changes below its joining (own), and those at its level (low).
struct Changes { double common, own[ROWS_BOTTOM], low[ROWS_BOTTOM]; };

// Feature M - 1 of a row joins. Returns the change, before weights.
template <int M> INLINE double join_linear(const Linear<M> &x, const Record<M> &record, Linear<M - 1> &y) {
  constexpr int j = M - 1;
#pragma unroll
  for (int a = 0; a < j; a++) {
    y.delta[a] = x.delta[a] - record.gain[a] * x.delta[j];
    y.h[a] = (x.h[a] - record.gain[a] * x.h[j]) - record.shift[a] * x.delta[j];
  }
  return x.delta[j] * (x.h[j] - record.kappa * x.delta[j]) + record.K;
}

template <int M> INLINE void load_linear(const Source &source, int r, Linear<M> &x) {
#pragma unroll
  for (int a = 0; a < M; a++) {
    const Two both = source.rows[a * source.row_stride + r];
    x.delta[a] = both.x;
    x.h[a] = both.y;
  }
}

template <int M> struct RowsInRegisters {
  static INLINE void walk(const Two *table, const Linear<M> (&x)[ROWS], Changes (&sums)[ROWS], double (&all)[ROWS]) {
    Record<M> record;
    load_record<M>(table, record);
    Linear<M - 1> y[ROWS];
    double with[ROWS];
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
      const double change = join_linear<M>(x[r], record, y[r]);
      with[r] = record.member * change;
      sums[r].low[M - 1] += record.common * change;
    }
    if constexpr (M > 1) RowsInRegisters<M - 1>::walk(table + SIDE * (M + 1), y, sums, with);
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
      sums[r].own[M - 1] += with[r];
      all[r] += with[r];
    }
    if constexpr (M > 1) {
#pragma unroll
      for (int r = 0; r < ROWS; r++)
#pragma unroll
        for (int a = 0; a < M - 1; a++) {
          y[r].delta[a] = x[r].delta[a];
          y[r].h[a] = x[r].h[a];
        }
      RowsInRegisters<M - 1>::walk(table + SIDE * (M + 1 + table_size(M - 1)), y, sums, all);
    }
  }
};

template <int M>
INLINE void walk_rows_from(const Two *table, const Source &source, const int (&which)[ROWS], Changes (&sums)[ROWS],
                           double (&all)[ROWS]) {
  if constexpr (M <= ROWS_IN_REGISTERS) {
    Linear<M> x[ROWS];
#pragma unroll
    for (int r = 0; r < ROWS; r++) load_linear<M>(source, which[r], x[r]);
    RowsInRegisters<M>::walk(table, x, sums, all);
  } else {
    Two near[(M - 1) * ROWS];
#pragma unroll 1
    for (int joins = 1; joins >= 0; joins--) {
      Source next = source;
      int whose[ROWS];
      double here[ROWS];
#pragma unroll
      for (int r = 0; r < ROWS; r++) {
        whose[r] = which[r];
        here[r] = 0.0;
      }
      if (joins) {
        Record<M> record;
        load_record<M>(table, record);
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
          Linear<M> x;
          Linear<M - 1> y;
          load_linear<M>(source, which[r], x);
          const double change = join_linear<M>(x, record, y);
#pragma unroll
          for (int a = 0; a < M - 1; a++) near[a * ROWS + r] = Two{y.delta[a], y.h[a]};
          here[r] = record.member * change;
          sums[r].low[M - 1] += record.common * change;
          whose[r] = r;
        }
        next = Source{nullptr, near, 1, ROWS};
      }
      walk_rows_from<M - 1>(table + SIDE * (M + 1 + (joins ? 0 : table_size(M - 1))), next, whose, sums, here);
#pragma unroll
      for (int r = 0; r < ROWS; r++) {
        if (joins) sums[r].own[M - 1] += here[r];
        all[r] += here[r];
      }
    }
  }
}

// Bring a table that will be needed soon nearer; `share` of `of` threads each take a part.
INLINE void prefetch(const Two *tables, long long c, int share, int of) {
#ifdef __CUDA_ARCH__
  const Two *table = tables + c / SIDE * SIDE * table_size(ROWS_BOTTOM);
  for (int line = share; line < SIDE * table_size(ROWS_BOTTOM) / 8; line += of) {
#if PREFETCH == 1
    asm volatile("prefetch.global.L2 [%0];" ::"l"(table + 8 * line));
#elif PREFETCH == 2
    double unused;
    asm volatile("ld.global.ca.f64 %0, [%1];" : "=d"(unused) : "l"(table + 8 * line));
#elif PREFETCH == 3
    asm volatile("prefetch.global.L1 [%0];" ::"l"(table + 8 * line));
#endif
  }
#endif
}

// Threads of a group share coalitions and have ROWS rows each; `slots` groups work side by side.
extern "C" __global__ void __launch_bounds__(THREADS, ROWS_BLOCKS) walk_rows(const Two *tables, const Two *rows, long long N, int n,
    int slots, long long above, const double *member, const double *common, int width, double *all, double *sums) {
  const int group = (n + ROWS - 1) / ROWS;
  const int slot = (int)(thread() / group), first = (int)(thread() % group) * ROWS;
  if (slot >= slots) return;
  int which[ROWS];
  Changes own[ROWS];
  double total[ROWS];
#pragma unroll
  for (int r = 0; r < ROWS; r++) {
    which[r] = first + r < n ? first + r : n - 1;
    total[r] = own[r].common = 0.0;
#pragma unroll
    for (int i = 0; i < ROWS_BOTTOM; i++) own[r].own[i] = own[r].low[i] = 0.0;
  }
#pragma unroll 1
  for (long long c = slot; c < N; c += slots) {
    if (c + slots < N) prefetch(tables, c + slots, PREFETCH == 1 ? first / ROWS : threadIdx.x % 32, PREFETCH == 1 ? group : 32);
    const int at = ROWS_BOTTOM * width + members(c) + members(above);
    double here[ROWS];
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
      const double value = rows[c * n + which[r]].x;
      here[r] = member[at] * value;
      own[r].common += common[at] * value;
    }
    walk_rows_from<ROWS_BOTTOM>(tables + table_at(c), Source{nullptr, rows + (N + c) * n, 1, N * n}, which, own, here);
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
      if (first + r < n) all[c * n + first + r] += here[r];
      total[r] += here[r];
    }
  }
#pragma unroll
  for (int r = 0; r < ROWS; r++) {
    // what is subtracted from everybody's sum, less what does not count for the last players
    Sums<ROWS_BOTTOM> result;
    double later = own[r].common;
#pragma unroll
    for (int i = ROWS_BOTTOM - 1; i >= 0; i--) {
      result.own[i] = own[r].own[i] + later;
      later += own[r].low[i];
    }
    result.common = later;
    if (first + r < n)
      add_up<ROWS_BOTTOM>(sums + (long long)slot * n + first + r, (long long)slots * n, result, total[r], above);
  }
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
