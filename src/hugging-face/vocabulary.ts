import type { SourceFile } from './source-file.ts'

/** `llama_token_type`. */
const CONTROL = 3
const USER_DEFINED = 4
/**
 * Qwen2's rule for splitting text into words, as in llama.cpp's `llama-vocab.cpp`. Qwen's own file writes the letters
 * of contractions with `(?i:)`, which treats the long s (U+017F) as an s.
 */
const WORDS =
  "(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
const BYTE_LEVEL = { type: 'ByteLevel', add_prefix_space: false, trim_offsets: false, use_regex: false }

/** A model's vocabulary, and the roles of its special tokens. */
export type Vocabulary = ReturnType<typeof readVocabulary>

/** @throws Error for a tokenizer that is not Qwen2's. */
export function readVocabulary(source: SourceFile) {
  const kind = ['model', 'pre'].map((key) => source.find(`tokenizer.ggml.${key}`)).join(', ')
  if (kind !== 'gpt2, qwen2') throw source.error(`its tokenizer is '${kind}', not 'gpt2, qwen2'`)
  if (source.find('tokenizer.ggml.add_bos_token') === true) {
    throw source.error('its tokenizer begins each text with a token')
  }
  const tokens = source.strings('tokenizer.ggml.tokens')
  const types = source.numbers('tokenizer.ggml.token_type')
  const ids = new Map(tokens.map((token, id) => [token, id]))
  const said = ['eos', 'eot'].map((kind) => source.find(`tokenizer.ggml.${kind}_token_id`))
  const ends = [...said, ids.get('<|endoftext|>')].filter((id) => typeof id === 'number')
  return {
    tokens,
    /** Tokens that end a reply: those that the file names, and one that llama.cpp recognises by its name. */
    endIds: [...new Set(ends)],
    /** @throws Error for a token that is not in the vocabulary. */
    idOf(token: string): number {
      const id = ids.get(token)
      if (id === undefined) throw source.error(`its vocabulary has no token '${token}'`)
      return id
    },

    /**
     * `tokenizer.json`. It gives the same ids as llama.cpp, so unlike Qwen's own files, it does not compose characters
     * (NFC) first.
     */
    tokenizer(): object {
      const added = [...tokens.entries()].filter(([id]) => [CONTROL, USER_DEFINED].includes(types[id]!))
      return {
        version: '1.0',
        truncation: null,
        padding: null,
        added_tokens: added.map(([id, content]) => ({
          id,
          content,
          single_word: false,
          lstrip: false,
          rstrip: false,
          normalized: false,
          special: types[id] === CONTROL,
        })),
        normalizer: null,
        pre_tokenizer: {
          type: 'Sequence',
          pretokenizers: [
            { type: 'Split', pattern: { Regex: WORDS }, behavior: 'Isolated', invert: false },
            BYTE_LEVEL,
          ],
        },
        post_processor: BYTE_LEVEL,
        decoder: BYTE_LEVEL,
        model: {
          type: 'BPE',
          dropout: null,
          unk_token: null,
          continuing_subword_prefix: '',
          end_of_word_suffix: '',
          fuse_unk: false,
          byte_fallback: false,
          ignore_merges: false,
          vocab: Object.fromEntries(ids),
          merges: source.strings('tokenizer.ggml.merges').map((pair) => pair.split(' ')),
        },
      }
    },

    /** `tokenizer_config.json`. */
    configuration(contextTokens: number): object {
      const named = (kind: string) => {
        const id = source.find(`tokenizer.ggml.${kind}_token_id`)
        return typeof id === 'number' ? { [`${kind === 'padding' ? 'pad' : kind}_token`]: tokens[id] } : {}
      }
      return {
        // It uses tokenizer.json unchanged. Qwen2's own class would compose characters.
        tokenizer_class: 'PreTrainedTokenizerFast',
        model_max_length: contextTokens,
        ...named('bos'),
        ...named('eos'),
        ...named('padding'),
        add_bos_token: false,
        clean_up_tokenization_spaces: false,
      }
    },
  }
}
