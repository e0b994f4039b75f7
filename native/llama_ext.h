// Declarations of the llama.cpp functions that live in its staging header, which is not installed.
// They have C++ linkage and may change with any release: pyproject.toml pins the one that they
// belong to. Nothing else may declare or include them.

#pragma once

#include "llama.h"

// Makes a context keep hidden rows: with masked, of the rows whose logits are asked for.
void llama_set_embeddings_nextn(llama_context *ctx, bool value, bool masked);

// The hidden row of the i-th token of the last batch, embedding_length_out floats.
float *llama_get_embeddings_nextn_ith(llama_context *ctx, int32_t i);
