#pragma once

#include <deque>
#include <filesystem>
#include <functional>
#include <string>

#include "checkpoint/checkpoint.h"
#include "plan/workbench.h"
#include "state/followers.h"
#include "state/run_folder.h"
#include "state/run_state.h"

namespace autotrain {

/// What another rank than the first keeps, to be able to save the run when the first one is lost: the rows
/// that metrics.jsonl may lack, and where the folder is.
///
/// It writes nowhere but in a folder of its own in the run's, `rescued-<session>-<update>`, which making it
/// claims: of many ranks one makes it. So there are never two that write the same file, not even when the
/// first rank was only frozen or cut off and goes on; and a resume looks there only for what its last session
/// has left.
class Deputy final : public RunObserver {
 public:
  /// @param run     the folder of the run, as the first rank sees it, and @param session what it has left
  ///                there to tell this session by.
  /// @param bench   as the first rank's: tensors were shared. It must outlive this object.
  /// @param metrics_bytes length of metrics.jsonl when the session began.
  Deputy(std::filesystem::path run, std::string session, const Workbench& bench, int64_t metrics_bytes);

  void on_update(const UpdateRecord& record, int64_t) override;
  void on_evaluation(const EvaluationRecord& record) override;
  void on_event(const EventRecord& record) override;

  /// @param metrics_bytes length of metrics.jsonl with the rows up to this state.
  using Content = std::function<CheckpointContent(int64_t metrics_bytes)>;

  /// Saves the state that `position` is of, if it is whole and nobody else has saved it.
  /// @return where it stands; "" when it was not saved, which was said. @throws Error(kInputOutput).
  std::string save(const Position& position, const Content& content) const;

 private:
  /// What a resume makes of metrics.jsonl: its first bytes, and these rows.
  struct Rows {
    int64_t kept_bytes = 0;
    std::string more = {};
  };

  void keep(const nlohmann::ordered_json& row);
  std::string obstacle(const Position& position) const;
  std::string changed_buffer() const;
  Rows rows() const;
  std::string rows_from(size_t first) const;

  const std::filesystem::path run_;
  const std::string session_;
  const Workbench& bench_;
  const int64_t metrics_bytes_;
  const std::vector<size_t> buffers_;  // a digest of each, as they were
  std::deque<std::string> rows_;       // the last ones, a line each
  bool all_rows_ = true;               // none was dropped
};

/// Where a deputy of the session under way has saved the state of this update or a later one; "": nowhere.
std::string rescued_state(const std::filesystem::path& run, int64_t update);

/// Moves the newest state that a deputy of the last session has saved to the checkpoints, with its rows of
/// metrics.jsonl, unless there is one as new; and removes what deputies have left. For a resume.
/// @throws Error(kInputOutput).
void take_over_rescued(RunFolder& folder);

}  // namespace autotrain
