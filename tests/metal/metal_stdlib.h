// Metal's names for clang's OpenCL front end, which has Metal's address spaces: to parse what ships.
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
typedef unsigned uint;
typedef unsigned uint32_t;
typedef int int32_t;
typedef half float16_t;
struct bfloat16_t {
  ushort bits;
  bfloat16_t() = default;
  explicit bfloat16_t(float x);
  operator float() const;
  operator float() const __constant;
};
typedef ulong ulong2 __attribute__((ext_vector_type(2)));
typedef uint uint3 __attribute__((ext_vector_type(3)));
enum class mem_flags { mem_none, mem_threadgroup, mem_device };
void threadgroup_barrier(mem_flags);
float simd_sum(float);
float simd_shuffle_xor(float, ushort);
template <typename T, int kColumns, int kRows>
struct simdgroup_matrix;
template <>
struct simdgroup_matrix<float, 8, 8> {
  float of_lane[2];
};
typedef simdgroup_matrix<float, 8, 8> simdgroup_float8x8;
template <typename T, int kColumns, int kRows = kColumns>
simdgroup_matrix<T, kColumns, kRows> make_filled_simdgroup_matrix(T);
void simdgroup_load(simdgroup_float8x8&, const float*, ulong, ulong2 = 0, bool = false);
void simdgroup_store(simdgroup_float8x8, float*, ulong);
void simdgroup_multiply_accumulate(simdgroup_float8x8&, simdgroup_float8x8, simdgroup_float8x8,
                                   simdgroup_float8x8);
void simdgroup_multiply(simdgroup_float8x8&, simdgroup_float8x8, simdgroup_float8x8);
float exp(float);
float log(float);
float sqrt(float);
float max(float, float);
uint min(uint, uint);
uint mulhi(uint, uint);
#define device __global
#define constant __constant
#define threadgroup
#define double there_is_no_double_in_Metal
