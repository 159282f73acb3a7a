#pragma once
#include <nlohmann/json_fwd.hpp>

#include "lathe/io/torch/pickle_writer.h"

namespace lathe {

/// What of a value JSON can hold: a tuple is an array, an enumeration its value, another object the dict of
/// its attributes; tensors are null, and entries of a dict whose key is no text are left out.
nlohmann::json json_of(const PickleValue& value);

/// A JSON value as Python's json.loads makes it.
PickleBuilder::Ref pickle_of(PickleBuilder& make, const nlohmann::ordered_json& value);

}  // namespace lathe
