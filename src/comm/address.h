#pragma once

#include <string>

#include "comm/launch.h"

namespace autotrain {

/// The address of this host at which the other ranks of the run reach it: the one that it uses itself
/// towards the place where ranks meet; if that is the loopback interface, it is the address of the first
/// other one.
std::string address_for_peers(const Launch& launch);

/// Whether this name means the loopback interface here.
bool is_loopback(const std::string& host);

}  // namespace autotrain
