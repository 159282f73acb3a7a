#pragma once
#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "lathe/settings/training_arguments.h"

namespace lathe {

enum class Kind { kBool, kInt, kFloat, kText, kList, kDict };
enum class Grade { kMust, kShould, kLater, kRejected, kLathe };
enum class Support {
  kWorks,     ///< does what it says
  kNoEffect,  ///< any value is accepted; a notice says why nothing changes
  kNotYet,    ///< accepted at its default only
};

/// What a field can have in addition to its name and meaning.
struct FieldRules {
  std::optional<Support> support = {};          ///< default: kWorks where graded must or lathe, else kNotYet
  std::string_view reason = {};                 ///< why it has no effect or is not there yet, or what to do
  std::vector<std::string_view> choices = {};   ///< values that work; empty: any
  std::vector<std::string_view> booleans = {};  ///< the meaning of false and true, or of the flag without a
                                                ///< value: {no, all}
  std::vector<std::string_view> later = {};     ///< values Hugging Face knows and Lathe does not do yet
  double low = -std::numeric_limits<double>::infinity(), high = std::numeric_limits<double>::infinity();
  bool below_high = false;  ///< high itself is excluded
  bool whole = false;       ///< printed without fraction where integral (Python's 500, not 500.0)
  bool required = false;
  bool first = false;            ///< one of the ten flags of a script that --help shows before all others
  bool negatable = false;        ///< has a --no_<name> as well, though its default is not true
  bool secret = false;           ///< never printed
  bool only_command = false;     ///< steers the program, not the run: left out of written configs
  bool others = false;           ///< other values than `choices` are taken: the code that uses them checks
  std::string_view value = {};   ///< how help shows the value: "FILE"; empty: INT, TEXT and so on
  std::string_view letter = {};  ///< "n": -n is the same flag where flags come before a command
};

/// One field without its struct: what parser, help, docs and checks need.
struct FieldInfo {
  std::string_view name;
  Kind kind;
  bool optional;  ///< may be null
  Grade grade;
  std::string_view help;
  FieldRules rules;
  nlohmann::json default_value;
  std::string_view group = {};  ///< the title under which --help lists it; empty: that of its section

  Support support() const;
  /// Whether there is a --no_<name>.
  bool negatable() const { return kind == Kind::kBool && (rules.negatable || default_value == true); }
  /// The meaning of a Boolean, or of a word for one, by rules.booleans; returns all other values unchanged.
  nlohmann::json from_boolean(const nlohmann::json& value) const;
};

/// A field that only the table knows: it has no member, its value is kept in TrainingArguments::other and
/// read by value_of.
struct Unstored {
  Kind kind;
  nlohmann::json default_value;
};

template <typename T>
struct KindOf;
template <>
struct KindOf<bool> : std::integral_constant<Kind, Kind::kBool> {};
template <>
struct KindOf<int> : std::integral_constant<Kind, Kind::kInt> {};
template <>
struct KindOf<int64_t> : std::integral_constant<Kind, Kind::kInt> {};
template <>
struct KindOf<double> : std::integral_constant<Kind, Kind::kFloat> {};
template <>
struct KindOf<std::string> : std::integral_constant<Kind, Kind::kText> {};
template <>
struct KindOf<std::vector<std::string>> : std::integral_constant<Kind, Kind::kList> {};
template <>
struct KindOf<nlohmann::json> : std::integral_constant<Kind, Kind::kDict> {};

template <typename V>
struct Required {
  using type = V;
};
template <typename T>
struct Required<std::optional<T>> {
  using type = T;
};

/// One row of the table of struct S.
template <typename S>
struct Field {
  FieldInfo info;
  std::function<nlohmann::json(const S&)> get;
  std::function<void(S&, const nlohmann::json&)> set;  ///< value already of the field's kind

  /// The row of another table for a member of S, or of its base B: the same flag with this default.
  template <typename V, typename B>
  Field(FieldInfo like, V B::*member) : info(std::move(like)) {
    using T = typename Required<V>::type;
    constexpr bool kOptional = !std::is_same_v<T, V>;
    info.kind = KindOf<T>::value;
    info.optional = kOptional || info.kind == Kind::kDict;
    if (std::is_same_v<T, int>) {
      info.rules.low = std::max<double>(info.rules.low, std::numeric_limits<int>::min());
      info.rules.high = std::min<double>(info.rules.high, std::numeric_limits<int>::max());
    }
    get = [member](const S& s) -> nlohmann::json {
      if constexpr (kOptional)
        return s.*member ? nlohmann::json(*(s.*member)) : nlohmann::json();
      else
        return s.*member;
    };
    set = [member](S& s, const nlohmann::json& v) {
      if constexpr (kOptional)
        s.*member = v.is_null() ? V() : V(v.template get<T>());
      else
        s.*member = v.template get<T>();
    };
    info.default_value = get(S());
  }
  template <typename V, typename B>
  Field(std::string_view name, V B::*member, Grade grade, std::string_view help, FieldRules rules = {})
      : Field(FieldInfo{name, {}, {}, grade, help, std::move(rules), {}}, member) {}
  /// A row of Lathe's own.
  template <typename V, typename B>
  Field(std::string_view name, V B::*member, std::string_view help, FieldRules rules = {})
      : Field(name, member, Grade::kLathe, help, std::move(rules)) {}
  Field(std::string_view name, Unstored value, Grade grade, std::string_view help, FieldRules rules = {})
      : info{name,
             value.kind,
             value.default_value.is_null(),
             grade,
             help,
             std::move(rules),
             value.default_value},
        get([key = std::string(name), value](const S& s) {
          const auto found = s.other.find(key);
          return found == s.other.end() ? value.default_value : found->second;
        }),
        set([key = std::string(name)](S& s, const nlohmann::json& v) { s.other[key] = v; }) {}
};

/// A name from an earlier version of transformers.
struct OldName {
  std::string_view name;
  Kind kind;
  nlohmann::json default_value;
  std::string_view to = {};       ///< the field that takes the value; empty: none does
  nlohmann::json when_true = {};  ///< a true value writes this into `to`
  std::string_view note = {};     ///< printed when the flag is given
  bool wins = false;              ///< applied after everything else, as Hugging Face does
  bool switches = false;  ///< without a value, or with true or false, it has no effect: the target's default
                          ///< applies
};

/// The only list of fields, in the order of training_args.py (for scripts: of the script), Lathe's own last.
const std::vector<Field<TrainingArguments>>& training_fields();
/// The fields that decide which numbers a run computes: schedule, optimizer, step, precision, seed, data,
/// best model.  Not those for where it runs, what it shows and how it prefetches data.
const std::vector<Field<TrainingArguments>>& numeric_fields();
const std::vector<Field<GlueArguments>>& glue_fields();
const std::vector<Field<QaArguments>>& qa_fields();
const std::vector<Field<NerArguments>>& ner_fields();
const std::vector<Field<MlmArguments>>& mlm_fields();
const std::vector<Field<ClmArguments>>& clm_fields();
const std::vector<Field<SwagArguments>>& swag_fields();
const std::vector<Field<EmbedArguments>>& embed_fields();
const std::vector<Field<RerankArguments>>& rerank_fields();
inline const auto& fields_of(const TrainingArguments&) { return training_fields(); }
inline const auto& fields_of(const GlueArguments&) { return glue_fields(); }
inline const auto& fields_of(const QaArguments&) { return qa_fields(); }
inline const auto& fields_of(const NerArguments&) { return ner_fields(); }
inline const auto& fields_of(const MlmArguments&) { return mlm_fields(); }
inline const auto& fields_of(const ClmArguments&) { return clm_fields(); }
inline const auto& fields_of(const SwagArguments&) { return swag_fields(); }
inline const auto& fields_of(const EmbedArguments&) { return embed_fields(); }
inline const auto& fields_of(const RerankArguments&) { return rerank_fields(); }
const std::vector<OldName>& old_names();

/// The row of that name for training, else for glue.  Errors: throws kInternal if there is none.
const FieldInfo& row_of(std::string_view name);
/// The same for a command that is no script: it has the flag only because it works there. help: what it says
/// there in addition; empty: the row's own help.
FieldInfo shared_row(std::string_view name, std::string_view help = {});

/// A field of one object.  The object must outlive it.
struct BoundField {
  const FieldInfo* info;
  std::function<nlohmann::json()> get;
  std::function<void(const nlohmann::json&)> set;
};

/// The table must outlive them, too.
template <typename S>
std::vector<BoundField> bind(const std::vector<Field<S>>& table, S& object) {
  std::vector<BoundField> bound;
  for (const auto& f : table) {
    bound.push_back({&f.info, [&f, &object] { return f.get(object); },
                     [&f, &object](const nlohmann::json& v) { f.set(object, v); }});
  }
  return bound;
}
template <typename S>
std::vector<BoundField> bind(S& object) {
  return bind(fields_of(object), object);
}

/// "true", "0.5", a JSON text or the path of a JSON file as a value of this kind.
/// Errors: kUsage "--flag: found X, expected Y".
nlohmann::json value_from_text(std::string_view flag, Kind kind, const std::string& text);

/// A part of a flag's value as a whole number of at least `low`.  flag: "--hosts".  Errors: kUsage.
int whole_number(const std::string& flag, const std::string& text, int low);

/// A JSON value as a value of this field, e.g. 3 for a float.  Errors: kUsage.
nlohmann::json value_from_json(std::string_view flag, Kind kind, bool optional, const nlohmann::json& value);

/// Checks choices and range of one value.  Errors: kUsage.
void check_value(const FieldInfo& info, const nlohmann::json& value);
/// Checks the value and the support of one field that is not at its default; returns a notice if the value
/// has no effect.
/// Errors: kUsage.
std::optional<std::string> check_field(const BoundField& field);
/// The same for all fields; returns the notices.
std::vector<std::string> check_fields(const std::vector<BoundField>& fields);

/// The text shown in place of a secret: "<token>".
std::string hidden_secret(const FieldInfo& info);

/// All fields in table order, as Hugging Face writes them (500 rather than 500.0 for steps, secrets hidden):
/// the content of training_args.json and --print_config.  Fields that only steer the program are left out.
nlohmann::ordered_json to_json(const std::vector<BoundField>& fields);

/// A value as help and docs print it: 5e-05, None, [none].
std::string value_text(const FieldInfo& info, const nlohmann::json& value);
/// "bool", "int", "float", "str", "list", "dict"
std::string_view name_of(Kind kind);
/// How help shows what the flag takes: "INT", "FILE".
std::string_view value_name(const FieldInfo& info);
/// "M", "S", "L", "R", "lathe"
std::string_view name_of(Grade grade);

}  // namespace lathe
