// What a Hub, or what stands in its place, answers to fetch_snapshot: status, headers, redirects, ranges,
// JSON and content.  There is no network: this file gives curl_library itself, with functions that hand out
// the input.
//
// Input: answers with "\n====\n" between them, one to each request.  An answer is header lines, an empty line
// and the body; one that begins with '!' breaks off after it.
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "lathe/core/error.h"
#include "lathe/io/hub/curl_library.h"
#include "lathe/io/hub/hub.h"
#include "lathe/io/hub/hub_download.h"

namespace lathe {
namespace {

/// The answers that are still to be given; parts of a file are asked for by several threads.
class Answers {
 public:
  void set(std::string_view all) { rest_ = all; }
  std::optional<std::string> next() {
    constexpr std::string_view kBetween = "\n====\n";
    const std::lock_guard lock(mutex_);
    if (rest_.empty()) return std::nullopt;
    const size_t end = rest_.find(kBetween);
    std::string answer(rest_.substr(0, end));
    rest_ = end == std::string_view::npos ? "" : rest_.substr(end + kBetween.size());
    return answer;
  }
  bool left() const { return !rest_.empty(); }

 private:
  std::mutex mutex_;
  std::string_view rest_;
};

Answers answers;

using Callback = size_t (*)(char* data, size_t size, size_t count, void* context);

/// What is set on a handle.
struct Easy {
  Callback on_header = nullptr, on_body = nullptr;
  void *header_context = nullptr, *body_context = nullptr;
  bool head = false;
};

Easy& easy(CURL* handle) { return *static_cast<Easy*>(handle); }

CURLcode set_option(CURL* handle, CURLoption option, ...) {
  va_list values;
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wvarargs"  // an enum is promoted: so curl.h declares it
  va_start(values, option);
#pragma clang diagnostic pop
  switch (option) {
    case CURLOPT_NOBODY:
      easy(handle).head = va_arg(values, long) != 0;
      break;
    case CURLOPT_HEADERFUNCTION:
      easy(handle).on_header = va_arg(values, Callback);
      break;
    case CURLOPT_WRITEFUNCTION:
      easy(handle).on_body = va_arg(values, Callback);
      break;
    case CURLOPT_HEADERDATA:
      easy(handle).header_context = va_arg(values, void*);
      break;
    case CURLOPT_WRITEDATA:
      easy(handle).body_context = va_arg(values, void*);
      break;
    default:
      break;
  }
  va_end(values);
  return CURLE_OK;
}

CURLcode perform(CURL* handle) {
  const Easy& e = easy(handle);
  std::optional<std::string> answer = answers.next();
  if (!answer) return CURLE_COULDNT_CONNECT;
  const bool broken = answer->starts_with('!');
  size_t at = broken ? 1 : 0;
  while (at < answer->size()) {
    const size_t end = std::min(answer->find('\n', at), answer->size() - 1) + 1;
    const bool last = end - at == 1;
    if (e.on_header(answer->data() + at, 1, end - at, e.header_context) != end - at) return CURLE_WRITE_ERROR;
    at = end;
    if (last) break;
  }
  while (!e.head && at < answer->size()) {  // in two pieces or more
    const size_t bytes = std::max<size_t>(1, (answer->size() - at) / 2);
    if (e.on_body(answer->data() + at, 1, bytes, e.body_context) != bytes) return CURLE_WRITE_ERROR;
    at += bytes;
  }
  return broken ? CURLE_RECV_ERROR : CURLE_OK;
}

/// A folder that goes with the process; in memory where the system has such a place, since files are synced.
std::filesystem::path make_root() {
  std::string name =
      std::string(access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp") + "/lathe_hub_fuzz_XXXXXX";
  if (mkdtemp(name.data()) == nullptr) std::abort();
  static std::filesystem::path root;
  root = name;
  std::atexit([] { std::filesystem::remove_all(root); });
  return root;
}

/// Nothing is next to the cache, and every blob has the content that its name says.
void check_root(const std::filesystem::path& root) {
  for (const auto& entry : std::filesystem::directory_iterator(root))
    if (entry.path().filename() != "cache") std::abort();
  if (!std::filesystem::exists(root / "cache")) return;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root / "cache")) {
    const std::string name = entry.path().filename();
    const bool blob =
        entry.path().parent_path().filename() == "blobs" && (name.size() == 40 || name.size() == 64);
    if (blob && !has_right_hash(real_file_system(), entry.path(), name)) std::abort();
    if (!entry.is_symlink()) continue;
    const auto target = std::filesystem::weakly_canonical(entry.path());
    if (!target.string().starts_with(root.string() + "/cache/")) std::abort();
  }
}

}  // namespace

const CurlLibrary& curl_library() {
  static const CurlLibrary fake = {.global_init = [](long) { return CURLE_OK; },
                                   .easy_init = []() -> CURL* { return new Easy; },
                                   .easy_reset = [](CURL* handle) { easy(handle) = Easy(); },
                                   .easy_cleanup = [](CURL* handle) { delete &easy(handle); },
                                   .easy_setopt = set_option,
                                   .easy_perform = perform,
                                   .easy_strerror = [](CURLcode) { return "broken off"; },
                                   .slist_append = [](curl_slist* list, const char*) { return list; },
                                   .slist_free_all = [](curl_slist*) {}};
  return fake;
}

}  // namespace lathe

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::filesystem::path root = lathe::make_root();
  lathe::answers.set({reinterpret_cast<const char*>(data), size});
  std::atomic<bool> waits = false;  // a new try would come after a pause: the run ends instead
  lathe::HubSettings settings;
  settings.endpoint = "https://hub.test";
  settings.token = "t";
  settings.message = [&](const std::string&) { waits = true; };
  settings.should_stop = [&] { return waits.load(); };
  static constexpr size_t kMostFiles = 8;
  const auto choose = [](const std::vector<std::string>& files, const lathe::ReadFile&) {
    return std::vector(files.begin(), files.begin() + static_cast<long>(std::min(files.size(), kMostFiles)));
  };
  constexpr int kRuns = 3;  // the later ones go on with what the first left
  for (int run = 0; run < kRuns && (run == 0 || lathe::answers.left()); ++run) {
    waits = false;
    try {
      lathe::fetch_snapshot(lathe::real_file_system(), {lathe::RepoKind::kModel, "org/name", "main"},
                            (root / "cache").string(), settings, choose);
    } catch (const lathe::Error&) {  // what bad answers end in
    }
    lathe::check_root(root);
  }
  std::filesystem::remove_all(root / "cache");
  return 0;
}
