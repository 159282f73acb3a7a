#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lathe/io/hub/http.h"
#include "lathe/io/hub/hub_cache.h"

namespace lathe {

/// How the Hub is reached and who hears of it.
struct HubSettings {
  std::string endpoint = "https://huggingface.co";
  std::string token;               ///< empty: anonymous
  bool offline = false;            ///< nothing is fetched
  double api_timeout_s = 10;       ///< for answers about files
  double download_timeout_s = 10;  ///< for the longest stall of a download
  double retry_wait_s = 0.5;       ///< before the second try; each further one waits twice as long
  /// A file's bytes so far, from one thread at a time; `done == total` comes once, last.
  std::function<void(const std::string& file, uint64_t done, uint64_t total)> progress;
  /// What the user should know: waits, new tries.  From any thread.
  std::function<void(const std::string& line)> message;
  /// What is being done, and what came of it.
  std::function<void(const std::string& line)> note;
  /// Called only on the thread that asks for something; what it throws ends the work.
  std::function<bool()> should_stop;
  bool is_stopped() const { return should_stop && should_stop(); }
  /// What it gives is held as long as the Hub is asked and answers: what should_stop needs to know of a stop.
  std::function<std::shared_ptr<const void>()> while_asking;
};

/// From HF_ENDPOINT, HF_TOKEN (HUGGING_FACE_HUB_TOKEN, the file HF_TOKEN_PATH or $HF_HOME/token),
/// HF_HUB_OFFLINE or TRANSFORMERS_OFFLINE, HF_HUB_ETAG_TIMEOUT, HF_HUB_DOWNLOAD_TIMEOUT,
/// LATHE_HUB_RETRY_WAIT.
/// Errors: kUsage for an endpoint that is no http or https URL.
HubSettings hub_settings();

/// A token as a header may hold it: the first word of the given text.
std::string hub_token(std::string_view given);

/// A file as the Hub describes it.
struct RemoteFile {
  std::string name, etag;  ///< 64 hexadecimal digits: SHA-256; 40: git's name of the blob
  uint64_t size = 0;
  std::string url;
};

/// What a repository holds at a commit.
struct HubListing {
  std::string commit;
  std::vector<std::string> files;
};

/// What a client is for, which its messages say.
enum class HubWork { kFetch, kUpload };

/// Asks one Hub about one repository.  What fails for a while (no connection, stalls, 408, 429 with its
/// Retry-After, 5xx) is tried again, kTries times in all; an answer is given kMostAnswerTimes api_timeout_s.
/// Every method throws Error where the last try failed, kNotFound for what is not there or not allowed,
/// kInvalidData for answers that make no sense, kIo for the network, kInterrupted where should_stop says so.
class HubClient {
 public:
  /// `settings` must outlive it.
  HubClient(const HubSettings& settings, HubRepo repo, HubWork work = HubWork::kFetch)
      : settings_(settings),
        repo_(std::move(repo)),
        work_(work),
        held_(settings.while_asking ? settings.while_asking() : nullptr) {}

  static constexpr int kTries = 5;
  static constexpr double kMostAnswerTimes = 12;

  HubListing list();
  /// Nothing where the repository has no such revision.
  std::optional<HubListing> list_if_there();
  RemoteFile describe(const std::string& commit, const std::string& file);
  /// The answer to the last try.  Other hosts than the endpoint's do not get the token; a request with a body
  /// may wait kMostAnswerTimes as long for a sign of life.  what: its name in messages.
  HttpResponse ask(HttpRequest request, const std::string& what);

  /// Whether another try makes sense after this answer.
  static bool is_passing(const HttpResponse& response);
  /// Waits before try number `attempt` (from 1) as the answer asks, or retry_wait_s, twice that, ….
  /// Errors: kIo where the Hub asks for more than kMostWait_s; kInterrupted where should_stop says so.
  void wait(const HttpResponse& response, int attempt, const std::string& what,
            const std::function<bool()>& should_stop) const;
  /// Throws what an answer that is no success means to the user.
  [[noreturn]] void raise(const HttpResponse& response, const std::string& file) const;

  const HubSettings& settings() const { return settings_; }
  const HubRepo& repo() const { return repo_; }

 private:
  static constexpr double kMostWait_s = 300;
  std::string listing_url() const;
  HttpResponse ask_for_listing();
  HubListing listing_of(const HttpResponse& response) const;

  const HubSettings& settings_;
  const HubRepo repo_;
  const HubWork work_;
  const std::shared_ptr<const void> held_;
  HttpClient http_;
};

}  // namespace lathe
