#include "graph_exit.h"

#include "ggml-backend.h"

namespace gc {

GraphExit::Armed::Armed(GraphExit &exit, float *rows, size_t n_floats) : exit_(exit) {
    exit.armed_ = !exit.node_.empty();
    exit.reached_ = false;
    exit.rows_ = rows;
    exit.n_floats_ = n_floats;
}

bool GraphExit::on_node(ggml_tensor *node, bool ask, void *self) {
    auto &exit = *static_cast<GraphExit *>(self);
    if (ask) {
        return exit.armed_ && exit.wants(node);
    }
    exit.reach(node);
    return false;
}

// Once the node is reached, whatever a later split begins with.
bool GraphExit::wants(const ggml_tensor *node) const {
    return reached_ || (node_ == node->name && (rows_ == nullptr || can_copy(node)));
}

bool GraphExit::can_copy(const ggml_tensor *node) const {
    return node->type == GGML_TYPE_F32 && ggml_is_contiguous(node) &&
           ggml_nbytes(node) >= n_floats_ * sizeof(float);
}

void GraphExit::reach(const ggml_tensor *node) {
    if (!reached_ && rows_ != nullptr) {
        ggml_backend_tensor_get(node, rows_, 0, n_floats_ * sizeof(float));
    }
    reached_ = true;
}

}  // namespace gc
