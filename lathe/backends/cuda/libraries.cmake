if(LATHE_CUDA)
  target_link_libraries(lathe_cuda PRIVATE CUDA::cudart_static ${CMAKE_DL_LIBS})
  target_compile_options(lathe_cuda PRIVATE "$<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr;-lineinfo;-Werror=all-warnings>")
endif()
