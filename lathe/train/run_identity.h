#pragma once
#include <string>

namespace lathe {

/// What makes a run this one and no other, in addition to what config.json says (checkpoint_checks.h).
struct RunIdentity {
  std::string model = {};  ///< checksum of the weights that it began with; empty: not known, or all were new
  std::string data = {};   ///< `summary` of its training data; empty: not known
  /// What messages call them: a name or folder; files, and how they are read.  May be empty.
  std::string model_name = {}, data_name = {};
};

/// "model: found A, this run has B" if a run began with another model; empty if it did not, or if one of the
/// two is not known.
std::string model_difference(const RunIdentity& there, const RunIdentity& here);
/// The same for "training data".
std::string data_difference(const RunIdentity& there, const RunIdentity& here);

/// Whether a folder is the one that a checkpoint lies in, or another checkpoint in there: its model is one
/// that the checkpoint's run has made.
bool is_of_its_run(const std::string& folder, const std::string& checkpoint);

}  // namespace lathe
