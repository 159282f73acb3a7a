#include "lathe/io/hub/hub_client.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <limits>
#include <nlohmann/json.hpp>
#include <thread>

#include "lathe/core/environment.h"
#include "lathe/core/error.h"
#include "lathe/core/strtod_c.h"
#include "lathe/core/trimmed.h"
#include "lathe/io/json_file.h"

namespace lathe {
namespace {

constexpr int kMostHops = 5;

bool is_true(std::string value) {
  for (char& c : value) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return value == "1" || value == "TRUE" || value == "YES" || value == "ON";
}

double seconds_or(const char* name, double fallback) {
  constexpr double kMost = 86400;
  const double value = strtod_c(environment(name).c_str());
  return value > 0 ? std::min(value, kMost) : fallback;
}

std::string token_from_environment() {
  for (const char* name : {"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"})
    if (std::string token = hub_token(environment(name)); !token.empty()) return token;
  std::string path = hub_path("HF_TOKEN_PATH");
  if (path.empty()) path = join_path(hub_home(), "token");
  FileSystem& fs = real_file_system();
  if (!fs.exists(path) || fs.is_directory(path)) return "";
  return hub_token(fs.read(path).value());
}

bool is_hex(std::string_view text, size_t digits) {
  return text.size() == digits && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

/// An ETag header without W/ and quotes.
std::string bare_etag(std::string_view etag) {
  if (etag.starts_with("W/")) etag.remove_prefix(2);
  if (etag.size() >= 2 && etag.front() == '"' && etag.back() == '"') etag = etag.substr(1, etag.size() - 2);
  return std::string(etag);
}

/// What the Hub says of an error; "" if nothing.
std::string error_text(const HttpResponse& response) {
  constexpr size_t kLongest = 300;
  return response.header("x-error-message").substr(0, kLongest);
}

const char* kind_name(const HubRepo& repo) { return repo.kind == RepoKind::kModel ? "model" : "data set"; }

const char* stop_text(HubWork work) {
  return work == HubWork::kFetch ? "stopped; what was fetched is kept"
                                 : "stopped; nothing is committed, what was sent need not be sent again";
}

std::string page_of(const std::string& endpoint, const HubRepo& repo) {
  return fmt::format("{}/{}{}", endpoint, repo.kind == RepoKind::kModel ? "" : "datasets/", repo.name);
}

}  // namespace

std::string hub_token(std::string_view given) {
  const std::string_view token = trimmed(given);
  return std::string(token.substr(0, token.find_first_of(" \t\r\n")));
}

HubSettings hub_settings() {
  HubSettings settings;
  if (std::string endpoint = environment("HF_ENDPOINT"); !endpoint.empty()) {
    while (endpoint.ends_with('/')) endpoint.pop_back();
    if (!endpoint.starts_with("http://") && !endpoint.starts_with("https://"))
      fail(ErrorCode::kUsage, "HF_ENDPOINT: found \"{}\", expected a URL such as https://huggingface.co",
           without_userinfo(endpoint));
    settings.endpoint = endpoint;
  }
  settings.token = token_from_environment();
  settings.offline = is_true(environment("HF_HUB_OFFLINE")) || is_true(environment("TRANSFORMERS_OFFLINE"));
  settings.api_timeout_s = seconds_or("HF_HUB_ETAG_TIMEOUT", settings.api_timeout_s);
  settings.download_timeout_s = seconds_or("HF_HUB_DOWNLOAD_TIMEOUT", settings.download_timeout_s);
  settings.retry_wait_s = seconds_or("LATHE_HUB_RETRY_WAIT", settings.retry_wait_s);
  return settings;
}

bool HubClient::is_passing(const HttpResponse& response) {
  if (response.stopped || response.too_long) return false;
  const int status = response.status;
  if (status == 408 || status == 429 || status >= 500) return true;
  return !response.failure.empty() && status < 400;
}

void HubClient::wait(const HttpResponse& response, int attempt, const std::string& what,
                     const std::function<bool()>& should_stop) const {
  double seconds = settings_.retry_wait_s * static_cast<double>(1 << std::min(attempt - 1, 5));
  if (const std::string after = response.header("retry-after"); !after.empty()) {
    const double asked = strtod_c(after.c_str());  // a date, the other form, gives 0: the usual wait
    if (asked > kMostWait_s)
      fail(ErrorCode::kIo, "{}: the Hub asks to come back in {:.0f} s (HTTP {}); try again then{}", what,
           asked, response.status,
           settings_.token.empty() ? ", or set HF_TOKEN, which raises its limits" : "");
    seconds = std::max(seconds, asked);
  }
  if (settings_.message)
    settings_.message(fmt::format(
        "{}: {}; trying again in {:g} s", what,
        response.failure.empty() ? fmt::format("HTTP {}", response.status) : response.failure, seconds));
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (std::chrono::steady_clock::now() < end) {
    if (should_stop && should_stop()) fail(ErrorCode::kInterrupted, "{}: {}", what, stop_text(work_));
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

void HubClient::raise(const HttpResponse& response, const std::string& file) const {
  const std::string name = fmt::format("{} \"{}\"", kind_name(repo_), repo_.name);
  const std::string hub = without_userinfo(settings_.endpoint), tokens = hub + "/settings/tokens";
  const std::string page = page_of(hub, repo_), code = response.header("x-error-code");
  const std::string item = file.empty() ? name : fmt::format("{} of {}", file, name);
  if (response.stopped) fail(ErrorCode::kInterrupted, "{}: {}", item, stop_text(work_));
  const int status = response.status;
  if (code == "GatedRepo")
    fail(ErrorCode::kNotFound,
         "{} is gated (HTTP {}): ask for access at {}, then set HF_TOKEN to a token from {}{}", name, status,
         page, tokens, settings_.token.empty() ? "" : "; the token in use has no access yet");
  if (code == "RevisionNotFound")
    fail(ErrorCode::kNotFound, "{} has no revision \"{}\": {}/tree/main lists its branches and tags", name,
         repo_.revision, page);
  if (code == "EntryNotFound")
    fail(ErrorCode::kNotFound, "{} (revision {}) has no file {}", name, repo_.revision, file);
  if (status == 407)
    fail(ErrorCode::kIo,
         "{}: the proxy needs a user and password (HTTP 407): give them as http://user:password@host:port in "
         "https_proxy and http_proxy",
         item);
  if (status == 0 || !response.failure.empty())
    fail(ErrorCode::kIo, "{}: {}{} with {}. Check the network, a proxy (https_proxy) or HF_ENDPOINT{}", item,
         response.failure.empty() ? "no answer" : response.failure,
         is_passing(response) ? fmt::format(" after {} tries", kTries) : "", hub,
         work_ == HubWork::kFetch ? "; give the same command to go on" : "");
  if (status == 401 && !settings_.token.empty())
    fail(ErrorCode::kNotFound,
         "{}: {} does not know it, or does not accept the token (HTTP 401): check the name, and HF_TOKEN "
         "against {}",
         name, hub, tokens);
  if (status == 401 || code == "RepoNotFound" || (status == 404 && file.empty()))
    fail(ErrorCode::kNotFound,
         "{}: {} has none of that name, or it is private (HTTP {}): check the spelling, or set HF_TOKEN to a "
         "token from {}",
         name, hub, status, tokens);
  if (status == 403)
    fail(ErrorCode::kNotFound,
         "{}: not allowed (HTTP 403{}): set HF_TOKEN to a token from {} that may read it", item,
         error_text(response).empty() ? "" : ", " + error_text(response), tokens);
  if (status == 429)
    fail(ErrorCode::kIo, "{}: too many requests (HTTP 429), also after {} tries; try later{}", item, kTries,
         settings_.token.empty() ? ", or set HF_TOKEN, which raises the limits" : "");
  fail(status == 404 ? ErrorCode::kNotFound : ErrorCode::kIo, "{}: {} answers HTTP {}{}", item, hub, status,
       error_text(response).empty() ? "" : ": " + error_text(response));
}

HttpResponse HubClient::ask(HttpRequest request, const std::string& what) {
  const double longest = settings_.api_timeout_s * kMostAnswerTimes;
  if (url_origin(request.url) == url_origin(settings_.endpoint)) request.token = settings_.token;
  request.timeout_s = request.body ? longest : settings_.api_timeout_s;
  request.total_s = request.body ? 0 : longest;
  request.should_stop = settings_.should_stop;
  for (int attempt = 1;; ++attempt) {
    HttpResponse response = http_.perform(request);
    if (!is_passing(response) || attempt == kTries) return response;
    wait(response, attempt, what, settings_.should_stop);
  }
}

std::string HubClient::listing_url() const {
  return fmt::format("{}/api/{}/{}/revision/{}", settings_.endpoint,
                     repo_.kind == RepoKind::kModel ? "models" : "datasets",
                     percent_encoded(repo_.name, true), percent_encoded(repo_.revision, false));
}

HttpResponse HubClient::ask_for_listing() {
  HttpRequest request;
  request.url = listing_url();
  return ask(request, repo_.name);
}

HubListing HubClient::list() { return listing_of(ask_for_listing()); }

std::optional<HubListing> HubClient::list_if_there() {
  const HttpResponse response = ask_for_listing();
  if (response.header("x-error-code") == "RevisionNotFound") return std::nullopt;
  return listing_of(response);
}

HubListing HubClient::listing_of(const HttpResponse& response) const {
  if (!response.ok()) raise(response, "");
  const std::string url = without_userinfo(listing_url());
  const nlohmann::json json = parse_json(response.body, url);
  HubListing out{required<std::string>(json, "sha", url), {}};
  if (!is_hex(out.commit, 40))
    fail(ErrorCode::kInvalidData, "{}: \"sha\": found \"{}\", expected a commit's 40 digits", url,
         out.commit);
  const auto siblings = required<nlohmann::json>(json, "siblings", url);
  if (!siblings.is_array()) fail(ErrorCode::kInvalidData, "{}: \"siblings\": expected a list of files", url);
  for (const auto& sibling : siblings) {
    auto file = required<std::string>(sibling, "rfilename", url);
    if (!is_inside(file))
      fail(ErrorCode::kInvalidData, "{}: found the file name \"{}\", which leads out of its folder", url,
           file);
    out.files.push_back(std::move(file));
  }
  return out;
}

RemoteFile HubClient::describe(const std::string& commit, const std::string& file) {
  const std::string url = fmt::format("{}/resolve/{}/{}", page_of(settings_.endpoint, repo_), commit,
                                      percent_encoded(file, true));
  HttpRequest request;
  request.url = url;
  request.head = true;
  request.follow = false;  // the answer that leads to another host is the one that describes the file
  HttpResponse response;
  std::map<std::string, std::string> said;  // by the first answer that says it
  for (int hops = 0; hops <= kMostHops; ++hops) {
    response = ask(request, file);
    for (const char* name : {"x-repo-commit", "x-linked-etag", "x-linked-size"})
      if (const std::string value = response.header(name); !value.empty()) said.emplace(name, value);
    const std::string location = response.header("location");
    if (response.status < 300 || response.status >= 400 || location.empty()) break;
    const std::string target = url_joined(request.url, location);
    if (url_origin(target) != url_origin(request.url)) break;
    if (said.contains("x-linked-etag") && said.contains("x-linked-size")) break;
    request.url = target;
  }
  if (!response.failure.empty() || response.status == 0 || response.status >= 400) raise(response, file);
  const auto wrong = [&](const char* header, const std::string& found, const char* wanted) {
    fail(ErrorCode::kInvalidData,
         "{}: {}: found \"{}\", expected {}: this is no Hugging Face Hub, or a proxy changed it",
         without_userinfo(url), header, found, wanted);
  };
  if (const std::string found = said["x-repo-commit"]; found != commit)
    wrong("X-Repo-Commit", found, "the commit that was asked for");
  RemoteFile out{file, bare_etag(said["x-linked-etag"]), 0, url};
  if (out.etag.empty()) out.etag = bare_etag(response.header("etag"));
  if (!is_hex(out.etag, 40) && !is_hex(out.etag, 64)) wrong("ETag", out.etag, "a SHA-256 or git's SHA-1");
  std::string size = said["x-linked-size"];
  if (size.empty() && response.status < 300) size = response.header("content-length");
  const auto [end, error] = std::from_chars(size.data(), size.data() + size.size(), out.size);
  constexpr uint64_t kMost = std::numeric_limits<int64_t>::max();  // what a file system can count
  if (error != std::errc() || end != size.data() + size.size() || out.size > kMost)
    wrong("X-Linked-Size", size, "a number of bytes");
  return out;
}

}  // namespace lathe
