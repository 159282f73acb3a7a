#pragma once
#include <optional>
#include <string>

#include "lathe/app/terminal/terminal.h"
#include "lathe/io/hub/hub.h"

namespace lathe {

/// The Hub that the environment names, with its own token if one is given.  Downloads show a bar on the
/// terminal, or a line when they are done, which begins with `verb`; stop signals end them.  The terminal
/// must outlive it.
HubSettings hub_on(Terminal& terminal, const std::optional<std::string>& token = {},
                   const std::string& verb = "fetched");

/// fetch_model for a command without arguments about the Hub: revision main, the usual cache.
std::string named_model(const std::string& name_or_path, const ModelNeed& need = {});

}  // namespace lathe
