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
typedef uint uint3 __attribute__((ext_vector_type(3)));
enum class mem_flags { mem_none, mem_threadgroup, mem_device };
void threadgroup_barrier(mem_flags);
float simd_sum(float);
float sqrt(float);
uint mulhi(uint, uint);
#define device __global
#define constant __constant
#define threadgroup
#define double there_is_no_double_in_Metal
