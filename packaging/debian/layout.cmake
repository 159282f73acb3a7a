# What Debian's policy asks of the files that are about to be packed: copyright, and changelogs and manual pages
# compressed without a time.
if(NOT CPACK_GENERATOR STREQUAL "DEB")
  return()
endif()
find_program(DPKG_SHLIBDEPS dpkg-shlibdeps)
if(NOT DPKG_SHLIBDEPS)
  message(FATAL_ERROR "dpkg-shlibdeps is not here; without it the package would name no library that it needs. tools/setup.sh --deb installs it.")
endif()
set(root ${CPACK_TEMPORARY_DIRECTORY})
if(EXISTS ${root}/programs)
  set(root ${root}/programs)
endif()
set(doc ${root}/usr/share/doc/lathe)
file(REMOVE ${doc}/LICENSE)
file(COPY_FILE ${CMAKE_CURRENT_LIST_DIR}/copyright ${doc}/copyright)
file(CHMOD ${doc}/copyright PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)
file(RENAME ${doc}/CHANGELOG.md ${doc}/changelog)
string(TIMESTAMP now "%a, %d %b %Y %H:%M:%S +0000" UTC)
file(WRITE ${doc}/changelog.Debian "lathe (${CPACK_PACKAGE_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE}) unstable; urgency=medium

  * Version ${CPACK_PACKAGE_VERSION}; what changed stands in changelog.gz.

 -- ${CPACK_PACKAGE_CONTACT}  ${now}
")
file(GLOB pages ${root}/usr/share/man/man1/*.1)
foreach(file ${doc}/changelog ${doc}/changelog.Debian ${pages})
  execute_process(COMMAND gzip -9n ${file} COMMAND_ERROR_IS_FATAL ANY)
  file(CHMOD ${file}.gz PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)
endforeach()
foreach(link run_glue run_classification run_qa run_ner run_mlm run_clm run_swag)
  file(CREATE_LINK lathe.1.gz ${root}/usr/share/man/man1/${link}.1.gz SYMBOLIC)
endforeach()
file(CHMOD_RECURSE ${root}/usr DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE
     WORLD_READ WORLD_EXECUTE)   # whatever umask was
