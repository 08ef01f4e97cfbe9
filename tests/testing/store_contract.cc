#include "tests/testing/store_contract.h"

#include <string>
#include <vector>

#include "tests/testing/catch.h"

namespace pike::coordinator {
namespace {

using Strings = std::vector<std::string>;

EvaluationRow Evaluation(const std::string& id, int64_t unix_ms, const std::string& task,
                         const std::string& record) {
  return {
      .evaluation_id = id, .submitted_unix_ms = unix_ms, .task_version = task, .record = record};
}

Strings IdsOf(const std::vector<EvaluationRow>& rows) {
  Strings ids;
  for (const EvaluationRow& row : rows)
    ids.push_back(row.evaluation_id);
  return ids;
}

Strings ListIds(Store* store, const EvaluationQuery& query) {
  const auto rows = store->ListEvaluations(query);
  REQUIRE(rows.ok());
  return IdsOf(*rows);
}

void CheckLog(const StoreUnderTest& under_test) {
  std::unique_ptr<Store> store = under_test.open();
  auto state = store->Load();
  REQUIRE(state.ok());
  CHECK(state->snapshot.empty());
  CHECK(state->log.empty());

  CHECK(store->Append({}).ok());
  const std::string binary("\0\xff\n", 3);
  CHECK(store->Append({.records = {"a", binary}}).ok());
  CHECK(store->Append({.records = {"", "c"}}).ok());
  store.reset();
  store = under_test.open();
  state = store->Load();
  REQUIRE(state.ok());
  CHECK(state->snapshot.empty());
  CHECK(state->log == Strings{"a", binary, "", "c"});

  CHECK(store->ReplaceLog({"s1", binary}).ok());
  CHECK(store->Append({.records = {"d"}}).ok());
  store.reset();
  store = under_test.open();
  state = store->Load();
  REQUIRE(state.ok());
  CHECK(state->snapshot == Strings{"s1", binary});
  CHECK(state->log == Strings{"d"});

  CHECK(store->ReplaceLog({}).ok());
  state = store->Load();
  REQUIRE(state.ok());
  CHECK(state->snapshot.empty());
  CHECK(state->log.empty());
}

void CheckEvaluations(const StoreUnderTest& under_test) {
  std::unique_ptr<Store> store = under_test.open();
  CHECK(store->GetEvaluation("e1").status().code() == absl::StatusCode::kNotFound);
  CHECK(ListIds(store.get(), {}).empty());

  REQUIRE(store
              ->Append({.evaluations = {Evaluation("e1", 10, "t1", "one"),
                                        Evaluation("e3", 20, "t1", "three"),
                                        Evaluation("e2", 20, "t2", "two")}})
              .ok());
  REQUIRE(store->Append({.evaluations = {Evaluation("e1", 10, "t1", "one again")}}).ok());
  store.reset();
  store = under_test.open();
  const auto row = store->GetEvaluation("e1");
  REQUIRE(row.ok());
  CHECK(row->record == "one again");
  CHECK(row->submitted_unix_ms == 10);
  CHECK(row->task_version == "t1");

  CHECK(ListIds(store.get(), {}) == Strings{"e3", "e2", "e1"});
  CHECK(ListIds(store.get(), {.rows_max = 2}) == Strings{"e3", "e2"});
  CHECK(ListIds(store.get(), {.after = ListPosition{20, "e3"}}) == Strings{"e2", "e1"});
  CHECK(ListIds(store.get(), {.after = ListPosition{20, "e2"}, .rows_max = 5}) == Strings{"e1"});
  CHECK(ListIds(store.get(), {.after = ListPosition{10, "e1"}}).empty());
  CHECK(ListIds(store.get(), {.task_version = "t1"}) == Strings{"e3", "e1"});
  CHECK(ListIds(store.get(), {.task_version = "t3"}).empty());
  // Up to the row that goes over the bound, and the next call is as good as the first.
  CHECK(ListIds(store.get(), {.bytes_max = 5}) == Strings{"e3", "e2"});
  CHECK(ListIds(store.get(), {.bytes_max = 4}) == Strings{"e3"});
  CHECK(ListIds(store.get(), {}) == Strings{"e3", "e2", "e1"});
}

void CheckTasksAndArtifacts(const StoreUnderTest& under_test) {
  std::unique_ptr<Store> store = under_test.open();
  CHECK(store->GetTask("v1").status().code() == absl::StatusCode::kNotFound);
  CHECK(store->GetArtifact("k1").status().code() == absl::StatusCode::kNotFound);
  const ArtifactRow artifact{.key = "k1", .artifact_sha256 = "d1", .toolchain_digest = "tc"};
  REQUIRE(store
              ->Append({.tasks = {{.version = "v1", .registered_unix_ms = 5, .record = "one"},
                                  {.version = "v2", .registered_unix_ms = 6, .record = "two"}},
                        .artifacts = {artifact}})
              .ok());
  REQUIRE(store
              ->Append({.tasks = {{.version = "v1", .registered_unix_ms = 9, .record = "other"}},
                        .artifacts = {{.key = "k1", .artifact_sha256 = "d2"}}})
              .ok());
  store.reset();
  store = under_test.open();
  CHECK(store->GetTask("v1").value().record == "one");
  CHECK(store->GetTask("v1").value().registered_unix_ms == 5);
  CHECK(store->GetArtifact("k1").value().artifact_sha256 == "d1");
  CHECK(store->GetArtifact("k1").value().toolchain_digest == "tc");
  const auto all = store->ListTasks(std::nullopt, 10);
  REQUIRE(all.ok());
  REQUIRE(all->size() == 2);
  CHECK(all->front().version == "v2");
  const auto rest = store->ListTasks(ListPosition{6, "v2"}, 10);
  REQUIRE(rest.ok());
  REQUIRE(rest->size() == 1);
  CHECK(rest->front().version == "v1");
  CHECK(store->ListTasks(std::nullopt, 1).value().size() == 1);
}

void CheckTablesOutliveReplaceLog(const StoreUnderTest& under_test) {
  std::unique_ptr<Store> store = under_test.open();
  REQUIRE(store->ReplaceLog({"s"}).ok());
  CHECK(ListIds(store.get(), {}).size() == 3);
  CHECK(store->GetTask("v2").ok());
  CHECK(store->GetArtifact("k1").ok());
}

}  // namespace

void CheckStoreContract(const StoreUnderTest& under_test) {
  INFO("store: " << under_test.name);
  CheckLog(under_test);
  CheckEvaluations(under_test);
  CheckTasksAndArtifacts(under_test);
  CheckTablesOutliveReplaceLog(under_test);
}

}  // namespace pike::coordinator
