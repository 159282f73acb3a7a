#pragma once
#include <fmt/core.h>

#include <stdexcept>
#include <string>
#include <utility>
#include <variant>

namespace lathe {

/// What kind of fault it is; decides the exit code (`exit_code`) and what a caller may do about it.
enum class ErrorCode {
  kUsage,        ///< a flag, argument or API call is wrong: exit code 2
  kNotFound,     ///< a file, column, tensor or device is not there
  kInvalidData,  ///< a file or value is malformed
  kShape,        ///< shapes or dtypes do not fit
  kUnsupported,  ///< valid, but no implementation here
  kIo,           ///< the operating system failed a read or write
  kMemory,       ///< not enough memory
  kNonFinite,    ///< loss or gradient norm is not finite
  kInterrupted,  ///< a signal asked the run to stop
  kInternal,     ///< a broken invariant of Lathe itself
};

/// 2 for kUsage, 1 for the rest.
int exit_code(ErrorCode code);

/// Thrown while building: parsing, loading, tracing, configuring.  The message names the op or file, the
/// value found, the value expected and the way out.
class Error : public std::runtime_error {
 public:
  /// Zero bytes of the message, of a value found, stand as "\x00": what() would end at the first.
  Error(ErrorCode code, const std::string& message);
  ErrorCode code() const { return code_; }

 private:
  ErrorCode code_;
};

/// Throws Error with a formatted message: `fail(ErrorCode::kShape, "{}: found {}, expected {}", op, a, b)`.
template <typename... Args>
[[noreturn]] void fail(ErrorCode code, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(code, fmt::format(format, std::forward<Args>(args)...));
}

/// The outcome of something that runs (worker threads, executables, file system): success or an Error as a
/// value.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(ErrorCode code, std::string message) : failed_(true), code_(code), message_(std::move(message)) {}
  bool ok() const { return !failed_; }
  ErrorCode code() const { return code_; }
  const std::string& message() const { return message_; }
  /// Throws the Error it holds, if any.
  void check() const {
    if (failed_) throw Error(code_, message_);
  }

 private:
  bool failed_ = false;
  ErrorCode code_ = ErrorCode::kInternal;
  std::string message_;
};

/// A T or the Status that says why there is none.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::move(value)) {}
  Result(Status status) : state_(std::move(status)) {}
  bool ok() const { return std::holds_alternative<T>(state_); }
  Status status() const { return ok() ? Status() : std::get<Status>(state_); }
  /// The value; throws the Error if there is none.
  T& value() & {
    status().check();
    return std::get<T>(state_);
  }
  T value() && {  // by value: `for (auto& x : f().value())` must not dangle
    status().check();
    return std::get<T>(std::move(state_));
  }

 private:
  std::variant<T, Status> state_;
};

}  // namespace lathe
