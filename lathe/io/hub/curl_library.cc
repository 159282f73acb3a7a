#include "lathe/io/hub/curl_library.h"

#include <dlfcn.h>

#include <string>

#include "lathe/core/error.h"

namespace lathe {
namespace {

#ifdef __APPLE__
constexpr const char* kNames[] = {"/usr/lib/libcurl.4.dylib", "libcurl.4.dylib"};
#else
constexpr const char* kNames[] = {"libcurl.so.4", "libcurl-gnutls.so.4"};
#endif

CurlLibrary open_library() {
  void* handle = nullptr;
  for (const char* name : kNames)
    if (handle == nullptr) handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* why = dlerror();
    fail(ErrorCode::kUnsupported,
         "fetching needs libcurl, which is not on this machine ({}). Install it (Debian, Ubuntu: apt-get "
         "install "
         "libcurl4), or give the folder of what was to be fetched",
         why == nullptr ? kNames[0] : why);
  }
  CurlLibrary curl;
  const auto look_up = [&](const char* name, auto& function) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(handle, name));
    if (function == nullptr) fail(ErrorCode::kUnsupported, "{}: there is no {} in it", kNames[0], name);
  };
  look_up("curl_global_init", curl.global_init);
  look_up("curl_easy_init", curl.easy_init);
  look_up("curl_easy_reset", curl.easy_reset);
  look_up("curl_easy_cleanup", curl.easy_cleanup);
  look_up("curl_easy_setopt", curl.easy_setopt);
  look_up("curl_easy_perform", curl.easy_perform);
  look_up("curl_easy_strerror", curl.easy_strerror);
  look_up("curl_slist_append", curl.slist_append);
  look_up("curl_slist_free_all", curl.slist_free_all);
  curl.global_init(CURL_GLOBAL_DEFAULT);
  return curl;
}

}  // namespace

const CurlLibrary& curl_library() {
  static const CurlLibrary library = open_library();
  return library;
}

}  // namespace lathe
