// Functions that templates call by name.
#include <ctime>

#include "lathe/tokenizers/templates/library.h"
#include "lathe/tokenizers/templates/machine.h"

namespace lathe::templates {
namespace of_functions {
namespace {

constexpr int64_t kLongestRange = 100'000;  // as in Jinja's sandbox

Value range(Machine& m, const Value&, const Arguments& arguments) {
  const Bound args("range", arguments, {"start", "stop", "step"}, 1);
  for (size_t i = 0; i < 3; ++i)
    if (args[i] != nullptr && is_none(*args[i])) fault("range: found None, expected integers");
  const bool one = args[1] == nullptr;
  const int64_t begin = one ? 0 : args.integer(0, 0), end = one ? args.integer(0, 0) : args.integer(1, 0);
  const int64_t step = args.integer(2, 1);
  if (step == 0) fault("range: found the step 0, expected another");
  Values out;
  int64_t at = begin;
  while (step > 0 ? at < end : at > end) {
    if (std::ssize(out) == kLongestRange) fault("range: more than {} numbers", kLongestRange);
    m.meter().charge();
    out.emplace_back(at);
    if (__builtin_add_overflow(at, step, &at)) break;
  }
  return m.list(std::move(out), List::Kind::kRange);
}

/// Pairs of dict(…) and namespace(…): those of a dict or of a list of pairs, then the named ones.
Pairs pairs_of(Machine& m, const char* function, const Arguments& arguments) {
  if (arguments.positional.size() > 1)
    fault("{}: found {} arguments, expected at most 1", function, arguments.positional.size());
  Pairs out;
  if (!arguments.positional.empty()) {
    const Value& from = arguments.positional[0];
    if (const Dict* dict = as_dict(from)) {
      out = dict->items;
    } else {
      for (const Value& v : iterate(from, m.meter())) {
        Values pair = iterate(v, m.meter());
        if (pair.size() != 2)
          fault("{}: found {} values, expected pairs of key and value", function, pair.size());
        out.emplace_back(std::move(pair[0]), std::move(pair[1]));
      }
    }
  }
  for (const auto& [name, value] : arguments.named) out.emplace_back(m.text(name), value);
  return out;
}

Value dict(Machine& m, const Value&, const Arguments& arguments) {
  return make_dict(pairs_of(m, "dict", arguments), m.meter());
}

Value new_namespace(Machine& m, const Value&, const Arguments& arguments) {
  const Value once = make_dict(pairs_of(m, "namespace", arguments), m.meter());
  return m.make_namespace(as_dict(once)->items);
}

Value raise_exception(Machine& m, const Value&, const Arguments& arguments) {
  const Bound args("raise_exception", arguments, {"message"}, 1);
  fault("{}", to_text(*args[0], m.meter()));
}

Value strftime_now(Machine& m, const Value&, const Arguments& arguments) {
  const Bound args("strftime_now", arguments, {"format"}, 1);
  const WallTime now = m.now();
  std::tm t{};
  t.tm_year = now.year - 1900;
  t.tm_mon = now.month - 1;
  t.tm_mday = now.day;
  t.tm_hour = now.hour;
  t.tm_min = now.minute;
  t.tm_sec = now.second;
  timegm(&t);  // which finds the days of week and year
  if (t.tm_mon < 0 || t.tm_mon > 11 || t.tm_wday < 0 || t.tm_wday > 6)
    fault("strftime_now: the time that is given is none");
  return m.text(format_time(args.text(0, ""), t));
}

constexpr NamedFunction kFunctions[] = {{"range", range},
                                        {"dict", dict},
                                        {"namespace", new_namespace},
                                        {"raise_exception", raise_exception},
                                        {"strftime_now", strftime_now}};

}  // namespace
}  // namespace of_functions

Function find_function(std::string_view name) { return find_in(of_functions::kFunctions, name); }

}  // namespace lathe::templates
