#include "harness/options.hpp"

namespace moe::harness {

namespace {

constexpr std::size_t kManyWords = 100'000;

}  // namespace

const std::vector<Command>& commands() {
  static const std::vector<Command> table{
      {"check",
       "run kernels and judge every output against the reference",
       "",
       0,
       {"check --model deepseek-v3 --tp 8 --tokens 16 --load zipf:1.2 --layout both",
        "check --trials 200 --seed 7 --judge-budget 1e8 --properties all",
        "check --trials 100000 --resume trials.jsonl", "check --suite corpus",
        "check --case 'op=moe_layer model=...' --schedules 20"}},
      {"bench",
       "time kernels on the card, beside what the model predicts",
       "",
       0,
       {"bench --model qwen3-235b-a22b --tp 4 --tokens 1:4096:x2 --layout all --json b.json",
        "bench --model mixtral-8x7b --require-gpu --tokens 64 --layout both"}},
      {"predict",
       "what the model says a choice costs, and why; layouts side by side",
       "",
       0,
       {"predict --model deepseek-v3 --tp 8 --tokens 1:4096:x2 --layout both",
        "predict --model ./config.json --tokens 64 --load hot:0.5 --tile 16x128x128",
        "predict --model qwen3-30b --tokens 4 --why"}},
      {"compare",
       "measured against predicted (a bench report, or times of others), or new against old (two)",
       "BENCH.json [OLD.json]",
       2,
       {"compare b.json --fail-on off", "compare new.json old.json --fail-on slow --markdown -",
        "compare --against layers.csv.gz --tuned vllm/configs --json -",
        "compare --ncu counted.csv --case 'op=moe_layer model=...'"}},
      {"limits",
       "how near to what the card can do measured layers and their GEMMs are, and to the best public kernel",
       "BENCH.json...",
       64,
       {"limits b.json --public fixtures/measured/h200_public_kernels.csv",
        "limits b.json zipf.json --read-bandwidth 4.62e12 --json kernels.json"}},
      {"tune",
       "rank the tiles of Triton's fused-MoE kernel by prediction and write the table that vLLM and SGLang "
       "read",
       "",
       0,
       {"tune --family triton_fused_moe --space vllm --model deepseek-v3 --tp 8 --out configs",
        "tune --model qwen3-30b --tokens 1,16,256 --json -",
        "tune --aot --model deepseek-v3 --tp 8 --tokens 1:8192"}},
      {"route",
       "which path of a layer, or which shipped kernel, wins where: crossovers, the regret of fixed "
       "policies, a "
       "rule",
       "",
       0,
       {"route --model deepseek-v3 --tp 8 --tokens 1:4096:x2",
        "route --model qwen3-30b --tokens 1,64 --measure", "route --against peers.csv.gz --json -"}},
      {"lint",
       "what is wrong with tuned tables of vLLM and SGLang",
       "PATH",
       1,
       {"lint vllm/model_executor/layers/fused_moe/configs", "lint tables.csv --json -"}},
      {"calibrate",
       "measure a card by micro-kernels and write its hardware file; from rows that were measured before, "
       "or two such files against each other",
       "[ROWS.csv [AGAIN.csv]]",
       2,
       {"calibrate --out h200.json --csv rows.csv", "calibrate rows.csv --hardware h200",
        "calibrate rows.csv again.csv"}},
      {"profile",
       "the ncu command that counts a case on a card; with ncu and a card it runs, and its counts stand "
       "beside "
       "the model's",
       "",
       0,
       {"profile --model deepseek-v3 --tp 8 --tokens 16 --load zipf:1.2 --layout swap_ab",
        "profile --model qwen3-30b --tokens 64 --csv counted.csv"}},
      {"service",
       "what a layer's time means for a service: tokens a second, time to the first token, with an interval",
       "",
       0,
       {"service --model deepseek-v3 --tp 8 --concurrency 64 --context 4096", "service --claims"}},
      {"infer-semantics",
       "run designed probes and say where a kernel rounds: which preset it follows, or what none does",
       "",
       0,
       {"infer-semantics --model deepseek-v3 --tp 8 --layout all",
        "infer-semantics --model mixtral-8x7b --executor cuda --layout swap_ab --json found.json",
        "infer-semantics --op grouped_gemm --contract masked --model deepseek-v3 --tp 8",
        "infer-semantics --model qwen3-235b-a22b --executor reference --semantics vllm-triton"}},
      {"upstream-check",
       "a change to a kernel as its reviewer asks for it: right, same bits, same speed",
       "",
       0,
       {"upstream-check --before 'process:python3 old.py' --after 'process:python3 new.py' --model "
        "deepseek-v3 "
        "--tp 8",
        "upstream-check --before cuda --after 'process:python3 new.py' --model mixtral-8x7b --fail-on "
        "unexplained",
        "upstream-check --before emulated --after emulated --before-layout normal_mma --after-layout swap_ab "
        "--model deepseek-v3 --tp 8 --tokens 1,16"}},
      {"report",
       "what was written as JSON, and journals of long checks, as one page or one table",
       "FILE...",
       kManyWords,
       {"report trials.jsonl --html trials.html",
        "report check.json bench.json self_test.json audit.json --html all.html"}},
      {"merge",
       "the shards of a run as one report, with the run's exit code",
       "FILE...",
       kManyWords,
       {"merge shard1.json shard2.json --json all.json --junit all.xml"}},
      {"audit-jit",
       "how often Triton compiles a kernel again, because of which argument, and what would end it",
       "",
       0,
       {"audit-jit --kernel inv_rope_quant --trace tokens.csv --json -",
        "audit-jit --kernel inv_rope_quant --tokens 1:4096 --size groups=1",
        "audit-jit --cache ~/.triton/cache", "audit-jit --log vllm.log --compile-time 0.3s"}},
      {"reference",
       "compute a layer with the reference and write its inputs and every stage",
       "",
       0,
       {"reference --model mixtral-8x7b --tokens 8 --out layer.safetensors"}},
      {"list",
       "what this program knows: models, hardware, kernels, layouts, ops, properties",
       "[TOPIC]",
       1,
       {"list", "list models"}},
      {"doctor",
       "what this machine and this build can do, and how to get what is missing",
       "",
       0,
       {"doctor"}},
      {"completion",
       "a script that lets a shell complete commands, options and their values",
       "bash|zsh|fish",
       1,
       {"completion bash > ~/.local/share/bash-completion/completions/moeproof"}},
      {"man", "the manual page", "", 0, {"man | man -l -"}},
  };
  return table;
}

const Command* find_command(std::string_view name) {
  for (const Command& c : commands())
    if (c.name == name) return &c;
  return nullptr;
}

}  // namespace moe::harness
