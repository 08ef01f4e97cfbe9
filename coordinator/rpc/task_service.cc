#include "coordinator/rpc/task_service.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <absl/strings/str_cat.h>

#include "common/base/clock.h"
#include "common/base/status_macros.h"
#include "coordinator/rpc/validate.h"

namespace pike::coordinator {
namespace {

// Version of the rules by which a task file is loaded: eval mode, no gradients, seeds.
constexpr uint32_t kLoaderVersion = 1;

absl::StatusOr<v1::TaskRecord> MakeTask(const v1::RegisterTaskRequest& request,
                                        const BlobFolder& blobs) {
  RETURN_IF_ERROR(CheckRegister(request));
  v1::TaskRecord task;
  task.set_name(request.name());
  task.set_source_bytes(request.source().size());
  task.set_weight_seed(request.weight_seed());
  task.set_entry_reference(request.entry_reference().empty() ? "Model" : request.entry_reference());
  task.set_loader_version(kLoaderVersion);
  task.set_registered_unix_ms(ToUnixMs(WallNow()));
  ASSIGN_OR_RETURN(*task.mutable_source_sha256(), blobs.Put(request.source()));
  task.set_version(TaskVersion(task));
  return task;
}

absl::StatusOr<v1::TaskRecord> ParseTask(const TaskRow& row) {
  v1::TaskRecord task;
  if (!task.ParseFromString(row.record))
    return absl::DataLossError(absl::StrCat("task ", row.version, " is damaged in the store"));
  return task;
}

absl::Status GetInto(Store* store, const std::string& version, v1::GetTaskResponse* response) {
  RETURN_IF_ERROR(CheckDigest("version", version));
  const absl::StatusOr<TaskRow> row = store->GetTask(version);
  if (absl::IsNotFound(row.status()))
    return absl::NotFoundError(absl::StrCat("there is no task version ", version));
  RETURN_IF_ERROR(row.status());
  ASSIGN_OR_RETURN(*response->mutable_task(), ParseTask(*row));
  return absl::OkStatus();
}

absl::Status ListInto(Store* store, const v1::ListTasksRequest& request,
                      v1::ListTasksResponse* response) {
  std::optional<ListPosition> after;
  if (!request.page_token().empty()) {
    ASSIGN_OR_RETURN(const PageStart start, ParsePageToken(request.page_token()));
    after = ListPosition{start.unix_ms, start.id};
  }
  const size_t page_size = PageSize(request.page_size());
  ASSIGN_OR_RETURN(const std::vector<TaskRow> rows, store->ListTasks(after, page_size + 1));
  for (const TaskRow& row : rows) {
    if (static_cast<size_t>(response->tasks_size()) == page_size) {
      const v1::TaskRecord& last = response->tasks(response->tasks_size() - 1);
      response->set_next_page_token(ToPageToken({last.registered_unix_ms(), last.version()}));
      break;
    }
    ASSIGN_OR_RETURN(*response->add_tasks(), ParseTask(row));
  }
  return absl::OkStatus();
}

}  // namespace

grpc::ServerUnaryReactor* TaskService::Register(grpc::CallbackServerContext* server_context,
                                                const v1::RegisterTaskRequest* request,
                                                v1::RegisterTaskResponse* response) {
  grpc::ServerUnaryReactor* reactor = server_context->DefaultReactor();
  const bool is_accepted = context_.pool->TryRun([this, reactor, request, response] {
    absl::StatusOr<v1::TaskRecord> task = MakeTask(*request, *context_.blobs);
    if (!task.ok())
      return reactor->Finish(service::ToGrpcStatus(task.status()));
    AskLoop(context_, reactor, response,
            [&task](RequestId id) { return TaskOffered{.request = id, .task = *std::move(task)}; });
  });
  if (!is_accepted)
    reactor->Finish(service::ToGrpcStatus(BusyError()));
  return reactor;
}

grpc::ServerUnaryReactor* TaskService::Get(grpc::CallbackServerContext* server_context,
                                           const v1::GetTaskRequest* request,
                                           v1::GetTaskResponse* response) {
  grpc::ServerUnaryReactor* reactor = server_context->DefaultReactor();
  RunInPool(context_, reactor, [this, request, response] {
    return GetInto(context_.store, request->version(), response);
  });
  return reactor;
}

grpc::ServerUnaryReactor* TaskService::List(grpc::CallbackServerContext* server_context,
                                            const v1::ListTasksRequest* request,
                                            v1::ListTasksResponse* response) {
  grpc::ServerUnaryReactor* reactor = server_context->DefaultReactor();
  RunInPool(context_, reactor,
            [this, request, response] { return ListInto(context_.store, *request, response); });
  return reactor;
}

}  // namespace pike::coordinator
