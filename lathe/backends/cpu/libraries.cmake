# Flags of the kernels, by file name: isa/FAMILY/KERNEL_LEVEL.cc is compiled for exactly this LEVEL.  Nothing
# outside isa/ gets a flag of this kind, and files in isa/ share no inline code with the rest, so the binary
# starts on any machine. Levels of another architecture are left out of the build.
set(isa_avx2 -mavx2 -mfma -mf16c)
set(isa_avx2vnni ${isa_avx2} -mavxvnni)
set(isa_avx512 ${isa_avx2} -mavx512f -mavx512bw -mavx512cd -mavx512dq -mavx512vl -mprefer-vector-width=512)
set(isa_avx512vnni ${isa_avx512} -mavx512vnni)
set(isa_avx512bf16 ${isa_avx512vnni} -mavx512bf16)
set(isa_amx ${isa_avx512bf16} -mamx-tile -mamx-bf16 -mamx-int8)
set(isa_neon)
set(isa_neondot -march=armv8.2-a+dotprod)
set(isa_neonbf16 -march=armv8.2-a+bf16)
set(isa_levels_x86 avx2 avx2vnni avx512 avx512vnni avx512bf16 amx)
set(isa_levels_arm neon neondot neonbf16)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|amd64|AMD64)$")
  set(isa_other ${isa_levels_arm})
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64)$")
  set(isa_other ${isa_levels_x86})
else()
  set(isa_other ${isa_levels_x86} ${isa_levels_arm})
endif()

# Products and sums become one operation. Clang does so by the source (on): by what its optimiser sees (fast), the loop over
# whole vectors and its rest took different ones for a · b + c · d, and the bits of an update hung on where parts begin.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  set(isa_flags -O3 -ffp-contract=fast
                -Wno-uninitialized -Wno-maybe-uninitialized)   # GCC 12 warns of its own AVX-512 headers
else()
  set(isa_flags -O3 -ffp-contract=on)
endif()

file(GLOB_RECURSE isa_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/lathe/backends/cpu/isa/*.cc)
foreach(source ${isa_sources})
  get_filename_component(stem ${source} NAME_WE)
  string(REGEX REPLACE "^.*_" "" level ${stem})
  if(level IN_LIST isa_other)
    set_source_files_properties(${source} PROPERTIES HEADER_FILE_ONLY ON)
  else()
    set(options ${isa_flags} ${isa_${level}})
    # UndefinedBehaviorSanitizer doubles the time to compile the rows: it sees one level of them.
    if(stem MATCHES "^rows_" AND NOT level STREQUAL "portable" AND CMAKE_CXX_FLAGS MATCHES "-fsanitize=[a-z,]*undefined")
      list(APPEND options -fno-sanitize=undefined)
    endif()
    set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS "${options}")
  endif()
endforeach()
