#pragma once
#include <curl/curl.h>

namespace lathe {

/// libcurl's functions, from the shared library of this machine.  It is opened when something is to be
/// fetched and not linked: it brings some thirty libraries along, which take 8 ms to load where the program
/// starts in 1, and Lathe runs where it is not installed.
struct CurlLibrary {
  decltype(&::curl_global_init) global_init;
  decltype(&::curl_easy_init) easy_init;
  decltype(&::curl_easy_reset) easy_reset;
  decltype(&::curl_easy_cleanup) easy_cleanup;
  decltype(&::curl_easy_setopt) easy_setopt;
  decltype(&::curl_easy_perform) easy_perform;
  decltype(&::curl_easy_strerror) easy_strerror;
  decltype(&::curl_slist_append) slist_append;
  decltype(&::curl_slist_free_all) slist_free_all;
};

/// Opened at the first call, never closed; from any thread.  Errors: kUnsupported with the way to install it.
const CurlLibrary& curl_library();

}  // namespace lathe
