target_link_libraries(lathe_mlx PUBLIC ${CMAKE_DL_LIBS})
