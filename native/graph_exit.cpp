#include "graph_exit.h"

#include "ggml-backend.h"

namespace gc {

bool GraphExit::is_ours(const ggml_tensor *node) const {
    return node_ == ggml_get_name(node) && node->type == GGML_TYPE_F32 &&
           ggml_is_contiguous(node) && ggml_nbytes(node) == floats_.size() * sizeof(float);
}

bool GraphExit::on_node(ggml_tensor *node, bool ask, void *exit) {
    auto &self = *static_cast<GraphExit *>(exit);
    const bool ours = self.armed_ && self.is_ours(node);
    if (ask || !ours) {
        return ours == ask;
    }
    // Its memory may serve other nodes once the pass goes on elsewhere.
    ggml_backend_tensor_get(node, self.floats_.data(), 0, ggml_nbytes(node));
    self.reached_ = true;
    return false;
}

}  // namespace gc
