// Exact Shapley values of many rows on a GPU: what does not depend on rows is computed once for all of them.
//
// This file continues `tree.cu`. A player's joining changes the value of a row. The change counts for all coalitions of
// the subtree below it. To players who wait it makes no difference, because half of these coalitions are with them and half
// without. For the players who have decided it counts with m if they joined, and with -b for everybody, where m and b are sums
// of the member weights and of the common weights over the subtree. These depend on the size of the coalition and on how many
// players wait: member[waiting * width + size]. So `tabulate` writes a record for each step, with these weights and the numbers
// that rows need, and in `walk_rows` a step takes two multiply-adds for the change, two for the weights, and three for each
// feature (four by factors). To keep records small, they have no more than that: the part of a change that is the same for all
// rows is summed up in `tabulate`, and what everybody pays for the joins of the very last player follows from the other sums.
//
// Threads of a block walk several coalitions side by side, each with ROWS rows. They copy the tables of a subtree of STAGE
// players into shared memory while they walk the one before, because all threads of a coalition read the same numbers:
//
//     ROWS_BOTTOM players  depth first, states in local memory, records from memory
//     STAGE of them        depth first, states in shared or local memory, records from shared memory
//     ROWS_IN_REGISTERS    states in registers
//     ROWS_SUMS            sums in registers

// Twos in the records of all steps from m waiting features on: one for the join, then both subtrees. `above` counts only those
// of more than STAGE features, which come first in a table.
INLINE constexpr int table_size(int m) { return m == 0 ? 0 : record_size(m) + 2 * table_size(m - 1); }
INLINE constexpr int size_above(int m) { return m <= STAGE ? 0 : record_size(m) + 2 * size_above(m - 1); }
constexpr int N_STAGES = 1 << (ROWS_BOTTOM - STAGE), STAGE_SIZE = table_size(STAGE);
constexpr int SIZE_ABOVE = size_above(ROWS_BOTTOM), TABLE_SIZE = SIZE_ABOVE + N_STAGES * STAGE_SIZE;
constexpr int N_FAR = ROWS_BOTTOM - ROWS_SUMS, FAR_STEP = ROWS * ROWS_THREADS;
constexpr int STAGE_ROOM = STAGE_SIZE + 1 - STAGE_SIZE % 2;  // odd, so that neighbours lie in other banks of shared memory

struct Inputs { Constants constants; const double *member, *common; int width; };  // of tables

// Tables of SIDE coalitions are interleaved, so that threads fill whole sectors of memory.
INLINE long long table_at(long long c) { return c / SIDE * SIDE * TABLE_SIZE + c % SIDE; }

// What a thread adds up for a row, or for what is the same for all rows. Of the last S players: the changes below their joining
// (own) and those at their own level, which everybody who decides before them pays (low; not for the last player, see above).
// The others' sums are in shared memory, at far[i * STEP].
template <int S, int STEP> struct Changes {
  double own[S], low[S], later, *far;

  INLINE void clear(double *room) {
    far = room;
    later = 0.0;
    for (int i = 0; i < ROWS_BOTTOM - S; i++) far[i * STEP] = 0.0;
#pragma unroll
    for (int i = 0; i < S; i++) own[i] = low[i] = 0.0;
  }

  // Player M - 1 joined: what everybody pays, and later what counts for the player.
  template <int M> INLINE void pay(double change) {
    if constexpr (M <= S) {
      if constexpr (M > 1) low[M - 1] += change;
    } else {
      later += change;
#pragma unroll
      for (int i = 0; i < M - 1 - S; i++) far[i * STEP] += change;
    }
  }
  template <int M> INLINE void earn(double changes) {
    if constexpr (M <= S)
      own[M - 1] += changes;
    else
      far[(M - 1 - S) * STEP] += changes;
  }

  // The sums of all players, with what they paid while they waited; `start` is what they did before any of them decided.
  INLINE void finish(double start, double (&result)[ROWS_BOTTOM]) const {
    double waited = start + later;
    for (int i = 0; i < ROWS_BOTTOM - S; i++) result[S + i] = far[i * STEP] + start;
#pragma unroll
    for (int i = S - 1; i >= 0; i--) {
      result[i] = own[i] + waited;
      waited += low[i];
    }
  }
};
using RowChanges = Changes<ROWS_SUMS, ROWS * ROWS_THREADS>;
using Constant = Changes<1, THREADS>;

// ------------------------------------------------------------------------------------------------ what rows share

// The record of a join and the state after it. Returns the weighted change that is the same for all rows.
template <int M>
INLINE double write_join(const Pairs<M> &s, Two *table, const Inputs &inputs, const int size, Constant &sums, Pairs<M - 1> &t) {
  Step<M> step;
  join_pairs<M>(s, inputs.constants, step, t);
  const int at = (M - 1) * inputs.width + size + 1;
  const double member = inputs.member[at], common = inputs.common[at];
  store_record<M>(table, step, member, common);
  sums.template pay<M>(common * constant_of<M>(step));
  return member * constant_of<M>(step);
}

template <int M> struct TableInRegisters {
  static INLINE void write(const Pairs<M> &s, Two *table, const Inputs &inputs, const int size, Constant &sums, double &all) {
    Pairs<M - 1> t;
    double with = write_join<M>(s, table, inputs, size, sums, t);
    if constexpr (M > 1) TableInRegisters<M - 1>::write(t, table + SIDE * record_size(M), inputs, size + 1, sums, with);
    sums.template earn<M>(with);
    all += with;
    if constexpr (M > 1) {
      Pairs<M - 1> u;
      skip_pairs<M>(s, u);
      TableInRegisters<M - 1>::write(u, table + SIDE * (record_size(M) + table_size(M - 1)), inputs, size, sums, all);
    }
  }
};

// Records go to `table`, those of the next stages to `stages` if there are stages below.
template <int M>
INLINE void table_from(const Source &source, Two *table, Two *stages, const Inputs &inputs, const int size, Constant &sums,
                       double &all) {
  if constexpr (M == STAGE) table = stages;
  if constexpr (M <= TABLE_IN_REGISTERS) {
    Pairs<M> s;
    load_pairs<M>(source, s);
    TableInRegisters<M>::write(s, table, inputs, size, sums, all);
  } else {
    constexpr int size_below = M > STAGE ? size_above(M - 1) : table_size(M - 1);
    constexpr int stages_below = M > STAGE ? (1 << (M - 1 - STAGE)) * STAGE_SIZE : 0;
    Two near[n_cells(M - 1)];
#pragma unroll 1
    for (int joins = 1; joins >= 0; joins--) {
      Source next = source;
      double here = 0.0;
      if (joins) {
        Pairs<M> s;
        Pairs<M - 1> t;
        load_pairs<M>(source, s);
        here = write_join<M>(s, table, inputs, size, sums, t);
        store_pairs<M - 1>(near, t);
        next = Source{near, nullptr, 1, 1};
      }
      table_from<M - 1>(next, table + SIDE * (record_size(M) + (joins ? 0 : size_below)),
                        stages + SIDE * (joins ? 0 : stages_below), inputs, size + joins, sums, here);
      if (joins) sums.template earn<M>(here);
      all += here;
    }
  }
}

// `slots` threads work side by side. constant[c] is the change that is the same for all rows; sums[place * slots] collects it
// for the last players.
extern "C" __global__ void __launch_bounds__(THREADS) tabulate(const Two *pairs, long long N, int slots, long long above,
    double psi, double a_psi, const double *member, const double *common, int width, Two *tables, double *constant,
    double *sums) {
  if (thread() >= slots) return;
  Constant own;
  own.clear((double *)shared_memory() + threadIdx.x);
#pragma unroll 1
  for (long long c = thread(); c < N; c += slots) {
    Two *table = tables + table_at(c);
    double all = 0.0;
    table_from<ROWS_BOTTOM>(Source{pairs + c, nullptr, N, 1}, table, table + SIDE * SIZE_ABOVE,
                            Inputs{{psi, a_psi}, member, common, width}, members(c) + members(above), own, all);
    constant[c] = all;
  }
  double result[ROWS_BOTTOM];
  own.finish(0.0, result);
  add_up<ROWS_BOTTOM>(sums + thread(), slots, result, 0.0, 0);
}

// ------------------------------------------------------------------------------------------------------- the rows

// Where the states of a thread's rows lie: (delta_a, h_a) of its row r is at rows[a * stride + r * unit].
struct States { const Two *rows; int stride, unit; };

template <int M> INLINE void load_linear(const States &states, int r, Linear<M> &x) {
#pragma unroll
  for (int a = 0; a < M; a++) {
    const Two both = states.rows[a * (long long)states.stride + r * states.unit];
    x.delta[a] = both.x;
    x.h[a] = both.y;
  }
}

template <int M> struct RowsInRegisters {
  static INLINE void walk(const Two *table, const Linear<M> (&x)[ROWS], RowChanges (&sums)[ROWS], double (&all)[ROWS]) {
    Record<M> record;
    load_record<M>(table, 1, record);
    Linear<M - 1> y[ROWS];
    double with[ROWS];
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
      const double change = join_linear<M>(x[r], record, y[r]);
      with[r] = record.member * change;
      sums[r].template pay<M>(record.common * change);
    }
    if constexpr (M > 1) RowsInRegisters<M - 1>::walk(table + record_size(M), y, sums, with);
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
      sums[r].template earn<M>(with[r]);
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
      RowsInRegisters<M - 1>::walk(table + record_size(M) + table_size(M - 1), y, sums, all);
    }
  }
};

// A join above those in registers: the row's next state, its weighted change, and what others pay.
template <int M>
INLINE double join_far(const States &states, int r, const Record<M> &record, Linear<M - 1> &y, RowChanges &sums) {
  Linear<M> x;
  load_linear<M>(states, r, x);
  const double change = join_linear<M>(x, record, y);
  sums.template pay<M>(record.common * change);
  return record.member * change;
}

// The players of a stage.
template <int M>
INLINE void walk_stage(const Two *table, const States &states, RowChanges (&sums)[ROWS], double (&all)[ROWS]) {
  if constexpr (M == ROWS_IN_REGISTERS) {  // only if all of them are in registers
    Linear<M> x[ROWS];
#pragma unroll
    for (int r = 0; r < ROWS; r++) load_linear<M>(states, r, x[r]);
    RowsInRegisters<M>::walk(table, x, sums, all);
  } else {
    constexpr bool last = M == ROWS_IN_REGISTERS + 1;
    Two near[last ? 1 : (M - 1) * ROWS];
#pragma unroll 1
    for (int joins = 1; joins >= 0; joins--) {
      Linear<M - 1> y[ROWS];
      double here[ROWS];
      if (joins) {
        Record<M> record;
        load_record<M>(table, 1, record);
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
          here[r] = join_far<M>(states, r, record, y[r], sums[r]);
          if constexpr (!last)
#pragma unroll
            for (int a = 0; a < M - 1; a++) near[a * ROWS + r] = Two{y[r].delta[a], y[r].h[a]};
        }
      } else {
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
          here[r] = 0.0;
          if constexpr (last) load_linear<M - 1>(states, r, y[r]);
        }
      }
      const Two *below = table + record_size(M) + (joins ? 0 : table_size(M - 1));
      if constexpr (last) {
        RowsInRegisters<M - 1>::walk(below, y, sums, here);
      } else {
        walk_stage<M - 1>(below, joins ? States{near, ROWS, 1} : states, sums, here);
      }
#pragma unroll
      for (int r = 0; r < ROWS; r++) {
        if (joins) sums[r].template earn<M>(here[r]);
        all[r] += here[r];
      }
    }
  }
}

// Brings the tables of one stage after the other into shared memory, for `side` neighbouring coalitions at a time.
struct Stages {
  const Two *tables;
  long long N;
  int side, turn;
  int whose, place, step;  // what this thread copies: so many records of a coalition, from `place` on
  Two *shared;  // room for two stages
  Two *near;    // room for the states that threads start a stage from

  INLINE void request() const {
    const long long c = (blockIdx.x + turn / N_STAGES * (long long)gridDim.x) * side + whose;
    if (c >= N) return;
    const Two *table = tables + table_at(c), *from = table + (SIZE_ABOVE + turn % N_STAGES * STAGE_SIZE) * SIDE;
    Two *target = shared + (turn % 2 * side + whose) * STAGE_ROOM;
#pragma unroll 4  // so that no copy waits until the one before has read its address
    for (int at = place; at < STAGE_SIZE; at += step) copy_two(target + at, from + at * SIDE);
    if (turn % N_STAGES == 0)
      for (int at = place; at < SIZE_ABOVE; at += step) prefetch(table + at * SIDE);
  }

  // The next stage of all coalitions. Requests the one after it.
  INLINE const Two *next() {
    wait_for_copies();
    __syncthreads();
    const Two *arrived = shared + turn % 2 * side * STAGE_ROOM;
    turn++;
    request();
    return arrived;
  }
};

// The players above a stage. All threads of a block call it, so that they can share the stages.
template <int M>
INLINE void walk_rows_from(const Two *table, Stages &stages, const int slot, const bool active, const States &states,
                           RowChanges (&sums)[ROWS], double (&all)[ROWS]) {
  if constexpr (M == STAGE) {
    const Two *here = stages.next() + slot * STAGE_ROOM;
    if (active) walk_stage<M>(here, states, sums, all);
  } else {
    constexpr bool last = M == STAGE + 1;
    Two local[last ? 1 : (M - 1) * ROWS];
    Two *near = last ? stages.near + threadIdx.x : local;
    const int step = last ? ROWS_THREADS : 1;
#pragma unroll 1
    for (int joins = 1; joins >= 0; joins--) {
      States next = states;
      double here[ROWS];
#pragma unroll
      for (int r = 0; r < ROWS; r++) here[r] = 0.0;
      if (joins) {
        next = States{near, ROWS * step, step};
        if (active) {
          Record<M> record;
          load_record<M>(table, SIDE, record);
#pragma unroll
          for (int r = 0; r < ROWS; r++) {
            Linear<M - 1> y;
            here[r] = join_far<M>(states, r, record, y, sums[r]);
#pragma unroll
            for (int a = 0; a < M - 1; a++) near[(a * ROWS + r) * step] = Two{y.delta[a], y.h[a]};
          }
        }
      }
      walk_rows_from<M - 1>(table + SIDE * (record_size(M) + (joins ? 0 : size_above(M - 1))), stages, slot, active, next, sums, here);
      if (active) {
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
          if (joins) sums[r].template earn<M>(here[r]);
          all[r] += here[r];
        }
      }
    }
  }
}

// A block walks `side` coalitions at a time, with one thread for ROWS rows of a coalition; n is a multiple of ROWS. `sums` is
// that of `add_up`, with one place for each row in each of the slots, side * blocks in all.
extern "C" __global__ void __launch_bounds__(ROWS_THREADS, 1) walk_rows(const Two *tables, const Two *rows, long long N, int n,
    int side, long long above, const double *member, const double *common, int width, const double *constant, double *all,
    double *sums) {
  const int group = n / ROWS, slot = threadIdx.x / group, first = threadIdx.x % group * ROWS;
  Two *stage_room = shared_memory(), *near = stage_room + 2 * side * STAGE_ROOM;
  double *far = (double *)(near + STAGE * FAR_STEP) + threadIdx.x;
  double *total = far + N_FAR * FAR_STEP, *base = total + FAR_STEP;
  RowChanges own[ROWS];
#pragma unroll
  for (int r = 0; r < ROWS; r++) {
    own[r].clear(far + r * ROWS_THREADS);
    total[r * ROWS_THREADS] = base[r * ROWS_THREADS] = 0.0;
  }
  const int step = ROWS_THREADS / side, place = threadIdx.x / side < step ? threadIdx.x / side : TABLE_SIZE;
  Stages stages{tables, N, side, 0, (int)threadIdx.x % side, place, step, stage_room, near};
  stages.request();
#pragma unroll 1
  for (long long block = (long long)blockIdx.x * side; block < N; block += (long long)gridDim.x * side) {
    const bool active = slot < side && block + slot < N;
    const long long c = active ? block + slot : 0;
    const int at = ROWS_BOTTOM * width + members(c) + members(above);
    double here[ROWS];
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
      const double value = rows[c * n + first + r].x;
      here[r] = member[at] * value + constant[c];
      if (active) base[r * ROWS_THREADS] += common[at] * value;
    }
    const States states{rows + (N + c) * n + first, (int)N * n, 1};
    walk_rows_from<ROWS_BOTTOM>(tables + table_at(c), stages, slot, active, states, own, here);
    if (active) {
#pragma unroll
      for (int r = 0; r < ROWS; r++) {
        all[c * n + first + r] += here[r];
        total[r * ROWS_THREADS] += here[r];
      }
    }
  }
  wait_for_copies();
  if (slot >= side) return;
  const long long n_sums = (long long)gridDim.x * side * n;
#pragma unroll
  for (int r = 0; r < ROWS; r++) {
    double result[ROWS_BOTTOM];
    own[r].finish(base[r * ROWS_THREADS], result);
    double *target = sums + (blockIdx.x * (long long)side + slot) * n + first + r;
    add_up<ROWS_BOTTOM>(target, n_sums, result, total[r * ROWS_THREADS], above);
  }
}
