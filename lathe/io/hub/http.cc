#include "lathe/io/hub/http.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <exception>

#include "lathe/core/environment.h"
#include "lathe/core/error.h"
#include "lathe/core/trimmed.h"
#include "lathe/core/version.h"
#include "lathe/io/hub/curl_library.h"

namespace lathe {
namespace {

constexpr long kSlowBytes = 1024;  // fewer bytes a second than this for timeout_s is a stalled transfer
constexpr long kMostRedirects = 10;
constexpr size_t kMostErrorBytes = size_t{64} << 10;  // of a page that says why there is no file

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

/// What the callbacks see, and what they throw: it is thrown again after libcurl's C code has returned.
struct Transfer {
  const HttpRequest& request;
  HttpResponse response;
  std::exception_ptr thrown;
  size_t header_bytes = 0;

  /// Ends the transfer, from a callback.
  size_t end_too_long(std::string why) {
    response.too_long = true;
    response.failure = std::move(why);
    return 0;
  }

  /// What `ask` says; false, too, where it throws.
  template <typename Ask>
  bool asked(const Ask& ask) {
    try {
      return ask();
    } catch (...) {
      thrown = std::current_exception();
      return false;
    }
  }
};

size_t on_header(char* data, size_t, size_t bytes, void* context) {
  auto& transfer = *static_cast<Transfer*>(context);
  auto& response = transfer.response;
  const std::string_view line(data, bytes);
  transfer.header_bytes += bytes;
  if (transfer.header_bytes > HttpResponse::kMostHeaderBytes)
    return transfer.end_too_long(
        fmt::format("an answer with more than {} bytes of headers", HttpResponse::kMostHeaderBytes));
  if (line.starts_with("HTTP/")) {  // a new answer: of a redirect's target, or after a proxy's
    const size_t space = line.find(' ');
    response.headers.clear();
    response.status =
        space == std::string_view::npos ? 0 : std::atoi(std::string(line.substr(space)).c_str());
  } else if (const size_t colon = line.find(':'); colon != std::string_view::npos) {
    response.headers[lower(trimmed(line.substr(0, colon)))] = std::string(trimmed(line.substr(colon + 1)));
  }
  return bytes;
}

size_t on_body(char* data, size_t, size_t bytes, void* context) {
  auto& transfer = *static_cast<Transfer*>(context);
  HttpResponse& response = transfer.response;
  if (transfer.request.sink && (response.status == 200 || response.status == 206)) {
    const std::span content(reinterpret_cast<const std::byte*>(data), bytes);
    if (transfer.asked([&] { return transfer.request.sink(response, content); })) return bytes;
    response.stopped = true;
    return 0;
  }
  const size_t most = transfer.request.sink ? kMostErrorBytes : HttpResponse::kMostBodyBytes;
  if (response.body.size() + bytes > most)
    return transfer.end_too_long(fmt::format("an answer of more than {} bytes", most));
  response.body.append(data, bytes);
  return bytes;
}

int on_progress(void* context, curl_off_t, curl_off_t, curl_off_t, curl_off_t sent) {
  auto& transfer = *static_cast<Transfer*>(context);
  if (transfer.request.sent && transfer.request.body) {
    const auto tell = [&] {
      transfer.request.sent(static_cast<uint64_t>(sent));
      return true;
    };
    if (!transfer.asked(tell)) return 1;
  }
  const auto& should_stop = transfer.request.should_stop;
  if (transfer.asked([&] { return !should_stop || !should_stop(); })) return 0;
  transfer.response.stopped = true;
  return 1;
}

class HeaderList {
 public:
  explicit HeaderList(const CurlLibrary& curl) : curl_(curl) {}
  ~HeaderList() { curl_.slist_free_all(list_); }
  HeaderList(const HeaderList&) = delete;
  HeaderList& operator=(const HeaderList&) = delete;
  void add(const std::string& line) { list_ = curl_.slist_append(list_, line.c_str()); }
  curl_slist* get() const { return list_; }

 private:
  const CurlLibrary& curl_;
  curl_slist* list_ = nullptr;
};

std::string failure_text(const CurlLibrary& curl, CURLcode code, const char* detail,
                         const HttpRequest& request) {
  if (code == CURLE_OPERATION_TIMEDOUT)
    return fmt::format("no answer, or less than {} bytes a second, for {:g} s", kSlowBytes,
                       request.timeout_s);
  const std::string text = detail[0] != '\0' ? detail : curl.easy_strerror(code);
  return code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CACERT_BADFILE
             ? text + " (SSL_CERT_FILE names the certificates to trust)"
             : text;
}

}  // namespace

struct HttpClient::State {
  const CurlLibrary& curl = curl_library();
  CURL* easy = curl.easy_init();
  ~State() { curl.easy_cleanup(easy); }

  template <typename T>
  void set(CURLoption option, T value) {
    (void)curl.easy_setopt(easy, option,
                           value);  // an older libcurl may not know an option: its default stands
  }

  void prepare(const HttpRequest& request, const HeaderList& headers, Transfer& transfer, char* detail) {
    curl.easy_reset(easy);
    set(CURLOPT_URL, request.url.c_str());
    set(CURLOPT_NOBODY, request.head ? 1L : 0L);
    set(CURLOPT_FOLLOWLOCATION, request.follow ? 1L : 0L);
    if (request.body) {
      set(CURLOPT_POST, 1L);
      const auto bytes = request.body->bytes;  // without an address libcurl would read stdin
      set(CURLOPT_POSTFIELDS, bytes.empty() ? "" : reinterpret_cast<const char*>(bytes.data()));
      set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.body->bytes.size()));
      if (request.body->put) set(CURLOPT_CUSTOMREQUEST, "PUT");
      set(CURLOPT_POSTREDIR, static_cast<long>(CURL_REDIR_POST_ALL));
    }
    set(CURLOPT_MAXREDIRS, kMostRedirects);
#if LIBCURL_VERSION_NUM >= 0x075500
    set(CURLOPT_PROTOCOLS_STR, "http,https");
    set(CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
#endif
    // libcurl takes the certificates it was built with and leaves these to its callers.
    if (const std::string file = environment("SSL_CERT_FILE"); !file.empty())
      set(CURLOPT_CAINFO, file.c_str());
    if (const std::string folder = environment("SSL_CERT_DIR"); !folder.empty())
      set(CURLOPT_CAPATH, folder.c_str());
    set(CURLOPT_HTTPHEADER, headers.get());
    set(CURLOPT_NOSIGNAL, 1L);  // threads
    set(CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(request.timeout_s * 1000));
    set(CURLOPT_TIMEOUT_MS, static_cast<long>(request.total_s * 1000));
    set(CURLOPT_LOW_SPEED_LIMIT, kSlowBytes);
    set(CURLOPT_LOW_SPEED_TIME, std::max(1L, static_cast<long>(request.timeout_s)));
    set(CURLOPT_BUFFERSIZE, 256L << 10);
    set(CURLOPT_ERRORBUFFER, detail);
    set(CURLOPT_HEADERFUNCTION, &on_header);
    set(CURLOPT_HEADERDATA, &transfer);
    set(CURLOPT_WRITEFUNCTION, &on_body);
    set(CURLOPT_WRITEDATA, &transfer);
    set(CURLOPT_NOPROGRESS, 0L);
    set(CURLOPT_XFERINFOFUNCTION, &on_progress);
    set(CURLOPT_XFERINFODATA, &transfer);
  }
};

std::string HttpResponse::header(const std::string& name) const {
  const auto found = headers.find(name);
  return found == headers.end() ? "" : found->second;
}

HttpClient::HttpClient() : state_(std::make_unique<State>()) {
  if (state_->easy == nullptr) fail(ErrorCode::kMemory, "libcurl: no memory for a connection");
}
HttpClient::~HttpClient() = default;
HttpClient::HttpClient(HttpClient&&) noexcept = default;

HttpResponse HttpClient::perform(const HttpRequest& request) {
  HeaderList headers(state_->curl);
  headers.add(fmt::format("User-Agent: lathe/{}", kVersion));
  headers.add("Accept-Encoding: identity");  // sizes and ranges are those of the file itself
  if (!request.token.empty()) headers.add("Authorization: Bearer " + request.token);
  if (request.begin)
    headers.add(fmt::format("Range: bytes={}-{}", *request.begin,
                            request.end ? std::to_string(*request.end - 1) : std::string()));
  if (request.body) {
    headers.add("Content-Type:" + (request.body->type.empty() ? "" : " " + request.body->type));
    headers.add("Expect:");  // no waiting for "100 Continue"
  }
  Transfer transfer{request, {}, {}};
  char detail[CURL_ERROR_SIZE] = "";
  state_->prepare(request, headers, transfer, detail);
  const auto begin = std::chrono::steady_clock::now();
  const CURLcode code = state_->curl.easy_perform(state_->easy);
  if (transfer.thrown) std::rethrow_exception(transfer.thrown);
  HttpResponse& response = transfer.response;
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  if (code == CURLE_OPERATION_TIMEDOUT && request.total_s > 0 && took.count() >= request.total_s)
    transfer.end_too_long(fmt::format("an answer that took longer than {:g} s", request.total_s));
  if (code != CURLE_OK && !response.too_long)
    response.failure = failure_text(state_->curl, code, detail, request);
  return std::move(response);
}

std::string percent_encoded(std::string_view text, bool keep_slashes) {
  std::string out;
  for (const char c : text) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) != 0 ||
                       std::string_view("-._~").find(c) != std::string_view::npos ||
                       (keep_slashes && c == '/');
    out += plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return out;
}

std::string url_origin(std::string_view url) {
  const size_t host = url.find("://");
  return lower(host == std::string_view::npos ? "" : url.substr(0, url.find('/', host + 3)));
}

std::string without_userinfo(std::string_view url) {
  const size_t scheme = url.find("://"), host = scheme == std::string_view::npos ? 0 : scheme + 3;
  const size_t at = url.substr(0, url.find_first_of("/?#", host)).rfind('@');
  if (at == std::string_view::npos || at < host) return std::string(url);
  return std::string(url.substr(0, host)) + std::string(url.substr(at + 1));
}

std::string url_joined(const std::string& base, const std::string& location) {
  const size_t mark = location.find_first_of(":/?#");
  if (mark != std::string::npos && location.compare(mark, 3, "://") == 0) return location;
  if (location.starts_with("//")) return base.substr(0, base.find("//")) + location;
  const size_t path = base.find('/', base.find("://") + 3);
  const std::string origin = base.substr(0, path);
  if (location.starts_with("/")) return origin + location;
  return base.substr(0, base.rfind('/', base.find_first_of("?#")) + 1) + location;
}

}  // namespace lathe
