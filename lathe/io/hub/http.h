#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lathe {

struct HttpResponse {
  int status = 0;                              ///< 0: no answer came
  std::map<std::string, std::string> headers;  ///< of the last answer; names in lower case
  std::string body;                            ///< what did not go to a sink, at most kMostBodyBytes
  std::string failure;                         ///< why the transfer broke off; empty: it is whole
  bool stopped = false;                        ///< the sink or should_stop ended it
  bool too_long = false;                       ///< it had no end within these or total_s

  /// The list of 300,000 files has as many.
  static constexpr size_t kMostBodyBytes = size_t{16} << 20;
  static constexpr size_t kMostHeaderBytes = size_t{256} << 10;  ///< of all answers, redirects included

  bool ok() const { return failure.empty() && status >= 200 && status < 300; }
  /// "" if there is none.
  std::string header(const std::string& name) const;
};

/// What is sent along; a span of bytes that outlive the request.
struct HttpBody {
  std::span<const std::byte> bytes;
  std::string type;  ///< its Content-Type; empty: none is said
  bool put = false;  ///< PUT in place of POST
};

struct HttpRequest {
  std::string url;  ///< http or https
  bool head = false;
  std::optional<HttpBody> body;
  bool follow = true;                  ///< redirects; other hosts do not get the token
  std::string token;                   ///< sent as a bearer token if not empty
  std::optional<uint64_t> begin, end;  ///< only bytes [begin, end)
  double timeout_s = 10;               ///< to connect, and the longest time in which almost nothing comes
  double total_s = 0;                  ///< for all of it; 0: as long as it gets on
  /// Takes the bytes of an answer 200 or 206, whose headers are there already; false ends the transfer.
  std::function<bool(const HttpResponse&, std::span<const std::byte>)> sink;
  std::function<bool()> should_stop;   ///< asked about once a second
  std::function<void(uint64_t)> sent;  ///< told, as often, how many bytes of the body have left
};

/// One connection, kept open between requests to a host.  One thread at a time.  Proxies are what
/// libcurl finds (http_proxy, https_proxy, no_proxy, all_proxy), certificates its own or those of
/// SSL_CERT_FILE and SSL_CERT_DIR.
class HttpClient {
 public:
  /// Errors: kUnsupported without libcurl.
  HttpClient();
  ~HttpClient();
  HttpClient(HttpClient&&) noexcept;

  /// Never throws because of what the network does: that is in the response.  What the sink or
  /// should_stop throws ends the transfer.
  HttpResponse perform(const HttpRequest& request);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Everything but letters, digits and "-._~" as %XX; with keep_slashes '/' stays, too.
std::string percent_encoded(std::string_view text, bool keep_slashes);

/// "https://host:port" of a URL, in lower case.
std::string url_origin(std::string_view url);
/// A URL as it may be shown: without "user:password@".
std::string without_userinfo(std::string_view url);

/// A redirect's target as a whole URL.
std::string url_joined(const std::string& base, const std::string& location);

}  // namespace lathe
