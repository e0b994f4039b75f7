// A loaded pair of models and the target's vocabulary.

#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "llama.h"
#include "mapped_file.h"
#include "token_trie.h"

namespace gc {

struct Clusters;
struct HeadWeights;

struct ModelDeleter {
    void operator()(llama_model *model) const { llama_model_free(model); }
};
using ModelPtr = std::unique_ptr<llama_model, ModelDeleter>;

class Engine {
public:
    // Throws Error with llama.cpp's own words: GC_OUT_OF_MEMORY when it could not allocate, else
    // GC_LOAD_FAILED. drafter_path may be null. With own_kernels weights are packed for kernels of
    // our own where there are any.
    Engine(const char *target_path, const char *drafter_path, bool own_kernels);

    // Gives the drafter a head over these clusters. Throws Error(GC_BAD_ARGUMENT) without a
    // drafter, GC_LOAD_FAILED where they do not fit it.
    void set_clusters(Clusters clusters);

    const std::string &target_path() const { return target_path_; }
    // With a drafter only.
    const std::string &drafter_path() const { return drafter_file_->path(); }
    llama_model *target() const { return target_.get(); }
    llama_model *drafter() const { return drafter_.get(); }
    const llama_vocab *vocab() const { return vocab_; }
    // Null without a drafter, and for one that has no clusters.
    const std::shared_ptr<const HeadWeights> &head() const { return head_; }
    int32_t vocab_size() const { return llama_vocab_n_tokens(vocab_); }

    int32_t n_layers() const { return llama_model_n_layer(target_.get()); }
    // Bytes of the files' weights that kernels of our own multiply.
    int64_t packed_bytes() const { return packed_bytes_; }
    // From this layer on the target's layers own no keys and values but read earlier ones': for a
    // token whose logits nobody reads they need not run. n_layers() where that does not apply.
    int32_t first_skipped_layer() const { return first_skipped_layer_; }

    // The id of the control token that is spelled so, -1 if there is none.
    llama_token control_token(const char *spelling) const;
    // Plain content to token ids; no spelling of a control token becomes that token.
    std::vector<llama_token> tokenize(const char *text, int32_t n_bytes) const;
    // The bytes of a token, none for a control token.
    std::string piece(llama_token token) const;
    bool is_end(llama_token token) const { return llama_vocab_is_eog(vocab_, token); }
    // The tokens that end the model's turn.
    const std::vector<llama_token> &ends() const { return ends_; }
    // A token that structures the chat and must never come out of plain text.
    bool is_marker(llama_token token) const;
    // The texts of all tokens, made when first asked for.
    const TokenTrie &trie() const;

private:
    ModelPtr load(const char *path, bool own_kernels, const char *left_out);
    void tokenize_into(const char *text, int32_t n_bytes, std::vector<llama_token> &out) const;

    const std::string target_path_;
    std::optional<MappedFile> drafter_file_;  // kept: its path may lead to another one later
    int64_t packed_bytes_ = 0;
    ModelPtr target_;
    ModelPtr drafter_;
    std::shared_ptr<const HeadWeights> head_;
    const llama_vocab *vocab_ = nullptr;
    int32_t first_skipped_layer_ = 0;
    std::map<std::string, llama_token> markers_;  // by spelling
    std::vector<llama_token> ends_;
    mutable std::once_flag trie_made_;
    mutable std::unique_ptr<const TokenTrie> trie_;
};

}  // namespace gc
