#include "lathe/io/hub/hub_upload.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "lathe/core/error.h"
#include "lathe/core/strtod_c.h"
#include "lathe/io/base64.h"
#include "lathe/io/digest.h"
#include "lathe/io/json_file.h"

namespace lathe {
namespace {

using nlohmann::json;

constexpr size_t kSampleBytes = 512;  // of a file, by which the Hub tells text from data
constexpr size_t kFilesAtOnce = 256;  // as huggingface_hub asks
constexpr uint64_t kMostParts = 10'000;
constexpr double kMostPartBytes = 0x1p53;  // up to there each number of bytes is a double
constexpr const char* kJson = "application/json";
constexpr const char* kLfsJson = "application/vnd.git-lfs+json";

void check_allowed(const HubSettings& settings) {
  if (settings.offline)
    fail(ErrorCode::kUsage,
         "--push_to_hub: HF_HUB_OFFLINE or TRANSFORMERS_OFFLINE is set; unset it to upload");
  if (settings.token.empty())
    fail(ErrorCode::kUsage,
         "--push_to_hub: found no token; set HF_TOKEN to one from {}/settings/tokens that may write",
         without_userinfo(settings.endpoint));
}

/// A file that is to be uploaded.
struct LocalFile {
  std::string name;
  MappedFile content;
  std::string sha256;  ///< of those that go to the large file storage
};

HttpRequest post(const std::string& url, std::string_view body, const std::string& type) {
  HttpRequest request;
  request.url = url;
  request.body = HttpBody{as_bytes(body), type};
  return request;
}

/// One upload: what is asked of the Hub, in order.
class Upload {
 public:
  Upload(const UploadTarget& target, const HubSettings& settings)
      : target_(target),
        settings_(settings),
        hub_(settings_, {RepoKind::kModel, target.name, target.revision}, HubWork::kUpload) {}

  std::string create();
  std::string upload(std::vector<LocalFile> files, const std::string& message);

 private:
  std::string at(const std::string& path) const { return settings_.endpoint + path; }
  HttpResponse accepted(HttpRequest request, const std::string& what);
  json parsed(const HttpResponse& response, const std::string& what) const;
  [[noreturn]] void raise(const HttpResponse& response, const std::string& what) const;
  std::vector<bool> which_are_large(const std::vector<LocalFile>& files);
  void send_large(const std::vector<LocalFile*>& files);
  void send(const LocalFile& file, const json& actions);
  std::string put(const std::string& url, std::span<const std::byte> bytes, const LocalFile& file,
                  uint64_t before);
  void send_parts(const LocalFile& file, const json& header, const std::string& url);
  std::string url_of(const json& action, const LocalFile& file) const;
  std::string commit(const std::vector<LocalFile>& files, const std::string& message);

  const UploadTarget& target_;
  const HubSettings& settings_;
  HubClient hub_;
};

void Upload::raise(const HttpResponse& response, const std::string& what) const {
  const int status = response.status;
  const std::string hub = without_userinfo(settings_.endpoint);
  if (status == 401 || status == 403)
    fail(ErrorCode::kNotFound,
         "{}: \"{}\": the token may not write there (HTTP {}): set HF_TOKEN to one from {}/settings/tokens "
         "with "
         "the right to write, or give another --hub_model_id",
         what, target_.name, status, hub);
  if (status == 404 && response.header("x-error-code") == "RevisionNotFound")
    fail(ErrorCode::kNotFound,
         "{}: \"{}\" has no branch \"{}\" (--hub_revision); make it, or leave the flag out", what,
         target_.name, target_.revision);
  hub_.raise(response, what);
}

/// The answer, a success.
HttpResponse Upload::accepted(HttpRequest request, const std::string& what) {
  const bool of_hub = url_origin(request.url) == url_origin(settings_.endpoint);
  HttpResponse response = hub_.ask(std::move(request), what);
  if (response.ok()) return response;
  const int status = response.status;  // 407: of a proxy
  if (!of_hub && status >= 400 && status < 500 && status != 407)
    fail(ErrorCode::kIo, "{}: the Hub's storage refuses it (HTTP {}); try again", what, status);
  raise(response, what);
}

json Upload::parsed(const HttpResponse& response, const std::string& what) const {
  return parse_json(response.body, without_userinfo(settings_.endpoint) + ": " + what);
}

std::string Upload::create() {
  constexpr const char* kWhat = "making the repository";
  const size_t slash = target_.name.find('/');
  json wanted = {{"type", "model"}};
  wanted["name"] = target_.name.substr(slash == std::string::npos ? 0 : slash + 1);
  if (slash != std::string::npos) wanted["organization"] = target_.name.substr(0, slash);
  if (target_.is_private) wanted["private"] = *target_.is_private;
  const std::string asked = wanted.dump();
  const HttpResponse response = hub_.ask(post(at("/api/repos/create"), asked, kJson), kWhat);
  const int status = response.status;
  if (!response.ok() && status != 409) {
    // A token may be allowed to write into a repository and not to make one.
    const bool may_be_there = (status == 401 || status == 402 || status == 403) && slash != std::string::npos;
    HttpRequest look;
    look.url = at("/api/models/" + percent_encoded(target_.name, true));
    if (may_be_there && hub_.ask(look, kWhat).ok()) return target_.name;
    raise(response, kWhat);
  }
  const json answer = parsed(response, kWhat);
  const auto url = required<std::string>(answer, "url", kWhat);
  const size_t name = url.rfind('/', url.rfind('/') - 1);
  const std::string whole = name == std::string::npos ? "" : url.substr(name + 1);
  if (!is_hub_name(whole) || whole.find('/') == std::string::npos)
    fail(ErrorCode::kInvalidData, "{}: \"url\": found \"{}\", expected one that ends with organisation/name",
         kWhat, url);
  return whole;
}

std::vector<bool> Upload::which_are_large(const std::vector<LocalFile>& files) {
  constexpr const char* kWhat = "announcing the files";
  std::map<std::string, std::string> mode;
  for (size_t first = 0; first < files.size(); first += kFilesAtOnce) {
    json asked = json::array();
    for (size_t i = first; i < std::min(files.size(), first + kFilesAtOnce); ++i) {
      const auto bytes = files[i].content.bytes();
      asked.push_back({{"path", files[i].name},
                       {"size", bytes.size()},
                       {"sample", to_base64(bytes.first(std::min(bytes.size(), kSampleBytes)))}});
    }
    const std::string url = at(fmt::format("/api/models/{}/preupload/{}", percent_encoded(target_.name, true),
                                           percent_encoded(target_.revision, false)));
    const std::string body = json{{"files", asked}}.dump();
    const json answer = parsed(accepted(post(url, body, kJson), kWhat), kWhat);
    const auto said = required<json>(answer, "files", kWhat);
    if (!said.is_array()) fail(ErrorCode::kInvalidData, "{}: \"files\": expected a list", kWhat);
    for (const json& file : said)
      mode[required<std::string>(file, "path", kWhat)] = required<std::string>(file, "uploadMode", kWhat);
  }
  std::vector<bool> large;
  for (const LocalFile& file : files) {
    const std::string said = mode[file.name];
    if (said != "lfs" && said != "regular")
      fail(ErrorCode::kInvalidData, "{}: {}: \"uploadMode\": found \"{}\", expected \"lfs\" or \"regular\"",
           kWhat, file.name, said);
    large.push_back(said == "lfs" && !file.content.bytes().empty());  // the storage takes no empty file
  }
  return large;
}

std::string Upload::url_of(const json& action, const LocalFile& file) const {
  constexpr std::string_view kUsual = "https://huggingface.co/";
  auto url = required<std::string>(action, "href", file.name);
  if (url.starts_with(kUsual))
    url = settings_.endpoint + url.substr(kUsual.size() - 1);  // a mirror says it so
  return url;
}

/// Returns the answer's ETag.
std::string Upload::put(const std::string& url, std::span<const std::byte> bytes, const LocalFile& file,
                        uint64_t before) {
  HttpRequest request;
  request.url = url;
  request.body = HttpBody{bytes, "", true};
  const uint64_t total = file.content.bytes().size();
  request.sent = [&](uint64_t sent) {
    if (settings_.progress && before + sent < total) settings_.progress(file.name, before + sent, total);
  };
  const HttpResponse response = accepted(std::move(request), file.name);
  file.content.release(bytes);
  return response.header("etag");
}

void Upload::send_parts(const LocalFile& file, const json& header, const std::string& url) {
  const auto bytes = file.content.bytes();
  const json& said = header.at("chunk_size");  // a number, or its digits
  const double number = said.is_string()   ? strtod_c(said.get<std::string>().c_str())
                        : said.is_number() ? said.get<double>()
                                           : 0;
  const uint64_t size = number >= 1 && number <= kMostPartBytes ? static_cast<uint64_t>(number) : 0;
  const uint64_t count = size == 0 ? 0 : (bytes.size() + size - 1) / size;
  if (count == 0 || count > kMostParts)
    fail(ErrorCode::kInvalidData, "{}: chunk_size: found {}, expected the bytes of a part", file.name,
         said.dump());
  json parts = json::array();
  for (uint64_t part = 0; part < count; ++part) {
    const auto at = header.find(fmt::format("{}", part + 1));
    const auto padded = at != header.end() ? at : header.find(fmt::format("{:05}", part + 1));
    if (padded == header.end() || !padded->is_string())
      fail(ErrorCode::kInvalidData, "{}: the Hub names no place for part {} of {}", file.name, part + 1,
           count);
    const auto piece = bytes.subspan(part * size, std::min<uint64_t>(size, bytes.size() - part * size));
    parts.push_back(
        {{"partNumber", part + 1}, {"etag", put(padded->get<std::string>(), piece, file, part * size)}});
  }
  const std::string body = json{{"oid", file.sha256}, {"parts", parts}}.dump();
  accepted(post(url, body, kLfsJson), file.name);
}

void Upload::send(const LocalFile& file, const json& actions) {
  const auto upload = required<json>(actions, "upload", file.name);
  const std::string url = url_of(upload, file);
  const json header = upload.value("header", json::object());
  const auto bytes = file.content.bytes();
  if (header.is_object() && header.contains("chunk_size"))
    send_parts(file, header, url);
  else
    put(url, bytes, file, 0);
  if (settings_.progress) settings_.progress(file.name, bytes.size(), bytes.size());
  if (!actions.contains("verify")) return;
  const std::string body = json{{"oid", file.sha256}, {"size", bytes.size()}}.dump();
  accepted(post(url_of(actions["verify"], file), body, kJson), file.name);
}

void Upload::send_large(const std::vector<LocalFile*>& files) {
  constexpr const char* kWhat = "asking where the large files go";
  if (files.empty()) return;
  std::map<std::string, const LocalFile*> by_digest;
  json objects = json::array();
  for (LocalFile* file : files) {
    file->sha256 = sha256_hex(file->content.bytes());
    if (!by_digest.emplace(file->sha256, file).second) continue;
    objects.push_back({{"oid", file->sha256}, {"size", file->content.bytes().size()}});
  }
  const json asked = {{"operation", "upload"},
                      {"transfers", {"basic", "multipart"}},
                      {"objects", objects},
                      {"hash_algo", "sha256"},
                      {"ref", {{"name", target_.revision}}}};
  const std::string url =
      at(fmt::format("/{}.git/info/lfs/objects/batch", percent_encoded(target_.name, true)));
  const std::string body = asked.dump();
  const json answer = parsed(accepted(post(url, body, kLfsJson), kWhat), kWhat);
  const auto places = required<json>(answer, "objects", kWhat);
  if (!places.is_array()) fail(ErrorCode::kInvalidData, "{}: \"objects\": expected a list", kWhat);
  for (const json& place : places) {
    const auto found = by_digest.find(required<std::string>(place, "oid", kWhat));
    if (found == by_digest.end()) continue;
    if (place.contains("error"))
      fail(ErrorCode::kIo, "{}: the Hub refuses it: {}", found->second->name, place["error"].dump());
    if (place.contains("actions")) send(*found->second, place["actions"]);
  }
}

std::string Upload::commit(const std::vector<LocalFile>& files, const std::string& message) {
  constexpr const char* kWhat = "making the commit";
  std::string lines =
      json{{"key", "header"}, {"value", {{"summary", message}, {"description", ""}}}}.dump() + "\n";
  for (const LocalFile& file : files) {
    json line = {{"key", "file"}, {"value", {{"path", file.name}, {"encoding", "base64"}}}};
    if (file.sha256.empty())
      line["value"]["content"] = to_base64(file.content.bytes());
    else
      line = {{"key", "lfsFile"},
              {"value",
               {{"path", file.name},
                {"algo", "sha256"},
                {"oid", file.sha256},
                {"size", file.content.bytes().size()}}}};
    lines += line.dump() + "\n";
  }
  const std::string url = at(fmt::format("/api/models/{}/commit/{}", percent_encoded(target_.name, true),
                                         percent_encoded(target_.revision, false)));
  const HttpResponse response = hub_.ask(post(url, lines, "application/x-ndjson"), kWhat);
  if (response.stopped)
    fail(ErrorCode::kInterrupted, "{}: stopped before the answer; {}/{}/commits/{} tells whether it was made",
         kWhat, without_userinfo(settings_.endpoint), target_.name, target_.revision);
  if (!response.ok()) raise(response, kWhat);
  return required<std::string>(parsed(response, kWhat), "commitUrl", kWhat);
}

std::string Upload::upload(std::vector<LocalFile> files, const std::string& message) {
  const std::vector<bool> large = which_are_large(files);
  std::vector<LocalFile*> first;
  for (size_t i = 0; i < files.size(); ++i)
    if (large[i]) first.push_back(&files[i]);
  send_large(first);
  return commit(files, message);
}

}  // namespace

std::string create_repository(const UploadTarget& target, const HubSettings& settings) {
  if (!is_hub_name(target.name))
    fail(ErrorCode::kUsage,
         "--hub_model_id: found \"{}\", expected \"name\" or \"organisation/name\" of letters, digits, '-', "
         "'_' "
         "and '.'",
         target.name);
  check_allowed(settings);
  return Upload(target, settings).create();
}

std::string upload_files(FileSystem& fs, const std::string& folder, const std::vector<std::string>& names,
                         const UploadTarget& target, const std::string& message,
                         const HubSettings& settings) {
  check_allowed(settings);
  std::vector<LocalFile> files;
  for (const std::string& name : names) files.push_back({name, fs.map(join_path(folder, name)).value(), ""});
  return Upload(target, settings).upload(std::move(files), message);
}

}  // namespace lathe
