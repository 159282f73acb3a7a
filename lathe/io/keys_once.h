#pragma once
#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_set>
#include <utility>
#include <vector>

namespace lathe {

/// A key that an object of a JSON text has twice.
struct DuplicateKey {
  std::string key;
  size_t object;  ///< the byte at which the object begins
};

namespace keys_once_detail {

/// Builds what the parser reads, up to the second occurrence of a key in one object.  (The callback of
/// Json::parse sees keys, too, but takes quadratic time: at the end of an object it walks through all that
/// the one around it holds so far.)
template <typename Json>
class Builder {
  using Pairs = std::vector<typename Json::object_t::value_type>;
  static constexpr bool kKeepsOrder = std::is_base_of_v<Pairs, typename Json::object_t>;

 public:
  Json root;
  std::optional<std::string> twice;
  size_t bracket_of_twice = 0;  ///< which one, counted from 0, begins the object

  bool start_object(size_t) { return open(Json::object()); }
  bool start_array(size_t) { return open(Json::array()); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }
  bool key(std::string& key) {
    auto& object = open_.back().value->template get_ref<typename Json::object_t&>();
    bool is_new = true;
    if constexpr (kKeepsOrder) {
      is_new = is_new_in_order(key, object);
      if (is_new) next_ = &static_cast<Pairs&>(object).emplace_back(key, Json()).second;
    } else {
      const auto placed = object.emplace(key, Json());
      is_new = placed.second;
      next_ = &placed.first->second;
    }
    if (!is_new) twice = key, bracket_of_twice = open_.back().bracket;
    return is_new;
  }
  bool null() { return put(nullptr); }
  bool boolean(bool value) { return put(value); }
  bool number_integer(int64_t value) { return put(value); }
  bool number_unsigned(uint64_t value) { return put(value); }
  bool number_float(double value, const std::string&) { return put(value); }
  bool string(std::string& value) { return put(std::move(value)); }
  bool binary(typename Json::binary_t&) { return false; }  // JSON has none
  template <typename Exception>
  bool parse_error(size_t, const std::string&, const Exception& error) {
    throw error;
  }

 private:
  struct Open {
    Json* value;
    size_t bracket;
    std::unordered_set<std::string> keys = {};  // of an object that keeps the order of many
  };

  /// The object's own way looks through all its keys: quadratic time.
  bool is_new_in_order(const std::string& key, const typename Json::object_t& object) {
    constexpr size_t kFew = 16;
    std::unordered_set<std::string>& known = open_.back().keys;
    const auto is_it = [&](const auto& pair) { return pair.first == key; };
    if (object.size() < kFew) return std::none_of(object.begin(), object.end(), is_it);
    if (known.empty())
      for (const auto& pair : object) known.insert(pair.first);
    return known.insert(key).second;
  }

  Json* place(Json value) {
    if (open_.empty()) return &(root = std::move(value));
    Json& around = *open_.back().value;
    if (!around.is_array()) return &(*next_ = std::move(value));
    return &around.template get_ref<typename Json::array_t&>().emplace_back(std::move(value));
  }
  bool put(Json value) {
    place(std::move(value));
    return true;
  }
  bool open(Json value) {
    open_.push_back({place(std::move(value)), brackets_++});
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  std::vector<Open> open_;  // the outermost first
  Json* next_ = nullptr;    // the value of the last key
  size_t brackets_ = 0;
};

/// Where the bracket with this number stands: the parser keeps no positions.
size_t place_of_bracket(std::string_view text, size_t bracket);

}  // namespace keys_once_detail

/// Where the first number stands that no double holds: what Json::parse throws for it, out_of_range, does not
/// tell.  0 where there is none.
size_t place_beyond_double(std::string_view text);

/// As Json::parse, with `refuse`, which throws, for the first DuplicateKey: Json::parse drops one of the
/// values.
template <typename Json, typename Refuse>
Json parse_keys_once(std::string_view text, const Refuse& refuse) {
  keys_once_detail::Builder<Json> builder;
  Json::sax_parse(text.begin(), text.end(), &builder);
  if (builder.twice)
    refuse(DuplicateKey{*builder.twice, keys_once_detail::place_of_bracket(text, builder.bracket_of_twice)});
  return std::move(builder.root);
}

}  // namespace lathe
