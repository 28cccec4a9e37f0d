// Sampled orders on a GPU: the steps of `culpa._kernels.orders`, which derives them. This file continues `base.cu`.
//
// The covariance of the latent variables does not depend on rows. So `follow_orders` computes the gains y and the variance of
// every step once, one block for each order, and `pay_orders` uses them for all rows, one thread for each order and row.
//
// `follow_orders` keeps U as columns without what is known, U_ij at U[j (j - 1) / 2 + i], i < j. Neighbouring threads then lie
// in different banks of shared memory, whether they are neighbours in i or in j.

INLINE int column_at(int j) { return j * (j - 1) / 2; }

// What a sum of products needs of its terms, in four parts so that additions need not wait for each other.
struct Parts {
  double part[4] = {0.0, 0.0, 0.0, 0.0};
  INLINE double total() const { return (part[0] + part[1]) + (part[2] + part[3]); }
};

// gains[(o k + step) p + i] = (y_i, b_i y_i). U is in shared memory, or in `triangles` if these are given, one for each block.
extern "C" __global__ void __launch_bounds__(ORDER_THREADS) follow_orders(const double *loadings, const double *b,
    const int *queues, int n_orders, int k, int p, double psi, double *triangles, Two *gains, double *variances) {
  double *D = (double *)shared_memory(), *f = D + p, *v = f + p, *q = v + p, *pull = q + p, *w = pull + p, *last = w + p;
  const int n_cells_of_U = column_at(p);
  double *U = triangles ? triangles + blockIdx.x * (long long)n_cells_of_U : last + 1;
  for (long long o = blockIdx.x; o < n_orders; o += gridDim.x) {
    const int *queue = queues + o * k;
    for (int i = threadIdx.x; i < n_cells_of_U; i += blockDim.x) U[i] = 0.0;
    for (int j = threadIdx.x; j < p; j += blockDim.x) {
      D[j] = 1.0;
      f[j] = v[j] = loadings[queue[0] * (long long)p + j];
      q[j] = v[j] * f[j];
    }
    __syncthreads();
    for (int step = 0; step < k; step++) {
      const int next = queue[step + 1 < k ? step + 1 : step];
      // t_(j-1) is the sum of psi and q_0 to q_(j-1)
      for (int j = threadIdx.x; j < p; j += blockDim.x) {
        Parts sum;
        int i = 0;
        for (; i + 4 <= j; i += 4)
#pragma unroll
          for (int part = 0; part < 4; part++) sum.part[part] += q[i + part];
        for (; i < j; i++) sum.part[0] += q[i];
        const double before = psi + sum.total(), t = before + q[j];
        pull[j] = f[j] / before;
        D[j] *= before / t;
        w[j] = loadings[next * (long long)p + j];
        if (j == p - 1) *last = t;
      }
      __syncthreads();
      const double inverse = 1.0 / *last;
      for (int i = threadIdx.x; i < p; i += blockDim.x) {
        double h = v[i];
#pragma unroll 4
        for (int j = i + 1; j < p; j++) {
          const double U_ij = U[column_at(j) + i];
          U[column_at(j) + i] = U_ij - h * pull[j];
          h += U_ij * v[j];
        }
        const double y = h * inverse;
        gains[(o * k + step) * p + i] = Two{y, b[i] * y};
      }
      if (threadIdx.x == 0) variances[o * k + step] = *last;
      __syncthreads();
      for (int j = threadIdx.x; j < p; j += blockDim.x) {
        const double *column = U + column_at(j);
        Parts sum;
        int i = 0;
        for (; i + 4 <= j; i += 4)
#pragma unroll
          for (int part = 0; part < 4; part++) sum.part[part] += column[i + part] * w[i + part];
        for (; i < j; i++) sum.part[0] += column[i] * w[i];
        f[j] = w[j] + sum.total();
        v[j] = D[j] * f[j];
        q[j] = v[j] * f[j];
      }
      __syncthreads();
    }
  }
}

// Rows as columns: rows[feature * n + r]. earned[(player * n_orders + o) n + r] collects changes of value. Where `deltas` are
// given, the factors of each step go to deltas and slopes[(feature * n_orders + o) n + r] and constants[feature * n_orders + o]
// instead. z is in shared memory, or in `means` if these are given.
extern "C" __global__ void __launch_bounds__(ORDER_THREADS) pay_orders(const double *loadings, const int *queues, const int *paid,
    const Two *gains, const double *variances, const double *rows, int n_orders, int k, int p, int n, double a_psi, double *means,
    double *earned, double *deltas, double *slopes, double *constants) {
  const long long o = thread() / n;
  const int r = (int)(thread() % n);
  if (o >= n_orders) return;
  double *z = means ? means + thread() : (double *)shared_memory() + threadIdx.x;
  const long long z_step = means ? threads() : blockDim.x;
  for (int i = 0; i < p; i++) z[i * z_step] = 0.0;
  double delta = 0.0;
  const Two *before = gains + o * k * p;  // the first step moves z by nothing, because delta is 0
  for (int step = 0; step < k; step++) {
    const int feature = queues[o * k + step];
    const double *w = loadings + feature * (long long)p;
    const Two *now = gains + (o * k + step) * p;
    double surprise = rows[feature * (long long)n + r], slope = 0.0, curvature = 0.0;
#pragma unroll 4
    for (int i = 0; i < p; i++) {
      const Two gain = now[i];
      const double z_i = z[i * z_step] + before[i].x * delta;
      z[i * z_step] = z_i;
      surprise -= w[i] * z_i;
      slope += gain.y * z_i;
      curvature += gain.x * gain.y;
    }
    const double variance = variances[o * k + step];
    curvature += a_psi / variance;
    slope = 2.0 * slope + curvature * surprise;
    delta = surprise;
    before = now;
    if (deltas) {
      const long long at = feature * (long long)n_orders + o;
      deltas[at * n + r] = delta;
      slopes[at * n + r] = slope;
      if (r == 0) constants[at] = -curvature * variance;
    } else {
      earned[(paid[o * k + step] * (long long)n_orders + o) * n + r] += delta * slope - curvature * variance;
    }
  }
}
