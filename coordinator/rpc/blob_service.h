#pragma once

#include "coordinator/rpc/service_context.h"
#include "pike/v1/blob.grpc.pb.h"

namespace pike::coordinator {

// The Blob service. Each stream holds one chunk at a time. Thread-safe.
class BlobService final : public v1::Blob::CallbackService {
 public:
  explicit BlobService(const ServiceContext& context) : context_(context) {}

  grpc::ServerReadReactor<v1::WriteBlobRequest>* Write(grpc::CallbackServerContext* server_context,
                                                       v1::WriteBlobResponse* response) override;
  grpc::ServerWriteReactor<v1::ReadBlobResponse>* Read(grpc::CallbackServerContext* server_context,
                                                       const v1::ReadBlobRequest* request) override;

 private:
  const ServiceContext context_;
};

}  // namespace pike::coordinator
