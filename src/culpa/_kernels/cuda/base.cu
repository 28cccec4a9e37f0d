// What all kernels use. `gpu.py` puts this file in front of the others, and docs/gpu.md explains them.
//
// The arithmetic is plain C++, so that tests can compile it for the processor.

#define INLINE __device__ __forceinline__

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

INLINE long long thread() { return blockIdx.x * (long long)blockDim.x + threadIdx.x; }
INLINE long long threads() { return gridDim.x * (long long)blockDim.x; }

INLINE int members(long long coalition) {
#ifdef __CUDA_ARCH__
  return __popcll(coalition);
#else
  return __builtin_popcountll(coalition);
#endif
}

// What the threads of a block share. Tests on the processor bring their own.
INLINE Two *shared_memory() {
#ifdef __CUDA_ARCH__
  extern __shared__ Two room[];
  return room;
#else
  return (Two *)shared_room;
#endif
}

// Copies into shared memory go on while threads work, where the GPU can do that.
INLINE void copy_two(Two *target, const Two *source) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"((unsigned)__cvta_generic_to_shared(target)), "l"(source));
#else
  *target = *source;
#endif
}

// Ask for numbers that will be needed soon.
INLINE void prefetch(const Two *source) {
#ifdef __CUDA_ARCH__
  asm volatile("prefetch.global.L2 [%0];" ::"l"(source));
#endif
}

INLINE void wait_for_copies() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}
