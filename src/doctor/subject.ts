import { Conversations } from '../conversation/conversations.ts'
import { ChatTemplate } from '../conversation/prompt/chat-template.ts'
import type { MediaSource } from '../conversation/prompt/media-parts.ts'
import { untrusted } from '../conversation/prompt/placeholders.ts'
import { buildSharedPrompt, promptStyle, type SharedPrompt } from '../conversation/prompt/prompt.ts'
import { TemplateProcesses } from '../conversation/prompt/template-processes.ts'
import { collectReply, type WholeReply } from '../conversation/reply/reply.ts'
import type { ChatRequest } from '../conversation/request/chat-request.ts'
import { ModelRegistry } from '../inference/catalog/registry.ts'
import type { Constraint } from '../inference/contract/constraint.ts'
import type { Engine } from '../inference/contract/engine.ts'
import type { FinishEvent, TokenLogProb } from '../inference/contract/generation.ts'
import { GREEDY } from '../inference/contract/greedy.ts'
import type { PromptPart } from '../inference/contract/parts.ts'
import type { Priority } from '../inference/contract/priority.ts'
import type { Branch } from '../inference/contract/work.ts'
import type { DecodedImage } from '../media/decoding/process/protocol.ts'
import { InlineMedia } from '../media/inline-media.ts'
import { MediaLoader } from '../media/media-loader.ts'
import type { ModelCard, ServedId } from '../models/card.ts'

export const ORGANISATION = 'doctor'
const CHAT_TOKENS = 128
/** A slow model may take this long for one reply. */
const REPLY_SECONDS = 600

interface Question {
  readonly text: string
  readonly maxTokens: number
  readonly constraint?: Constraint
}

export interface SubjectOptions {
  readonly card: ModelCard
  /** One of the ids that the card serves. */
  readonly served: ServedId
  readonly engine: Engine
  /** Decodes images; by default a loader of its own. */
  readonly media?: MediaSource | undefined
  /** Replies in the background may take long. */
  readonly priority: Priority
  readonly signal: AbortSignal
}

/** Questions about one image, or about none. */
export interface Asked {
  readonly image: DecodedImage | null
  /** The text of the system turn; null for none. */
  readonly instruction: string | null
  readonly questions: readonly Question[]
  /** The most tokens of a thought before the reply; if left out, the model is not asked to think. */
  readonly thoughtTokens?: number
}

/** A chat request; what is left out is off. */
export type ChatFields = Pick<ChatRequest, 'messages'> & Partial<Pick<ChatRequest, 'tools' | 'toolUse' | 'structure'>>

/** A reply exactly as the model wrote it. */
export interface RawReply {
  readonly text: string
  readonly finish: FinishEvent
  /** The log-probabilities of its tokens, if the branch asks for them; otherwise empty. */
  readonly logProbs: readonly TokenLogProb[]
}

/** The model that is examined, as a server would run it. */
export type Subject = Awaited<ReturnType<typeof openSubject>>

/** @throws Error when the card promises what the model lacks, or the chat template cannot be used. */
export async function openSubject(options: SubjectOptions) {
  const registry = new ModelRegistry()
  registry.add(options.card, options.engine)
  const model = registry.find(options.served.id)!
  const { card, engine } = model
  await using opening = new AsyncDisposableStack()
  const templates = opening.adopt(new TemplateProcesses(), (processes) => processes.close())
  const style = promptStyle(model, new ChatTemplate(engine.info, templates))
  const media = options.media ?? opening.adopt(new MediaLoader(), (loader) => loader.close())
  const conversations = opening.adopt(
    new Conversations({ registry, media, compatibility: 'openai', chatBudgetSeconds: REPLY_SECONDS }),
    (opened) => opened.close(),
  )
  const resources = opening.move()
  const newSignal = () => AbortSignal.any([options.signal])

  /** A conversation whose user turn is still open. */
  function prompt(instruction: string | null = null, thinking = false): Promise<SharedPrompt> {
    const nothing = { messages: [], media: new Map(), demand: null, tools: [], replaysReasoning: false }
    return buildSharedPrompt({ param: 'messages', instruction, thinking, ...nothing }, style)
  }

  /** @returns the completion of each branch. */
  async function generate(
    prefix: readonly PromptPart[],
    branches: readonly Branch[],
    organisation = ORGANISATION,
  ): Promise<RawReply[]> {
    const { events } = await engine.generate({ organisation, prefix, branches }, newSignal())
    const texts = branches.map(() => '')
    const logProbs = branches.map((): TokenLogProb[] => [])
    const finishes: FinishEvent[] = []
    for await (const event of events) {
      if (event.type === 'error') throw event.error
      if (event.type === 'text') {
        texts[event.branch] += event.text
        logProbs[event.branch]!.push(...(event.logProbs ?? []))
      } else finishes[event.branch] = event
    }
    return texts.map((text, branch) => ({ text, finish: finishes[branch]!, logProbs: logProbs[branch]! }))
  }

  return {
    ...{ card, model, engine, style, prompt, generate },
    /** Ends questions; a new signal each time, because an old one would collect listeners. */
    get signal(): AbortSignal {
      return newSignal()
    },
    /** Why the model is not asked about images; null when it is. */
    blindness: model.served.modalities.includes('image') ? null : 'the model is not served with images',
    /** Prepares an image for the model. @param png bytes of a file. */
    async prepare(png: Buffer): Promise<DecodedImage> {
      const signal = newSignal()
      using request = media.open(ORGANISATION, signal)
      const reference = { type: 'inline', media: new InlineMedia(png) } as const
      return await request.image({ reference, param: 'image', signal }, card.image!)
    },
    /** Asks several questions over one prefix. */
    async ask({ image, instruction, questions, thoughtTokens }: Asked): Promise<RawReply[]> {
      const shared = await prompt(instruction, thoughtTokens !== undefined)
      const shown: PromptPart[] = image === null ? [] : [{ type: 'image', image: image.image }]
      const branches = questions.map(({ text, maxTokens, constraint }): Branch => {
        // Every question begins with the image, which is the last part of the prefix.
        const suffix = shared.suffix([...shown, ...untrusted(text)]).slice(shown.length)
        const thought = thoughtTokens === undefined ? undefined : { ...card.thought!, budget: thoughtTokens }
        return {
          suffix,
          n: 1,
          maxTokens,
          sampling: GREEDY,
          ...(constraint === undefined ? {} : { constraint }),
          ...(thought === undefined ? {} : { thought }),
        }
      })
      return generate([...shared.prefix, ...shown], branches)
    },
    /** Asks like a client, and returns the reply that a client gets. */
    async chat(fields: ChatFields): Promise<WholeReply> {
      const request: ChatRequest = {
        tools: [],
        toolUse: { choice: 'none', parallel: false },
        structure: null,
        streamed: false,
        topLogProbs: null,
        maxTokens: CHAT_TOKENS,
        maxTokensParam: 'max_completion_tokens',
        sampling: GREEDY,
        reasoningEffort: null,
        vision: { annotationFormat: null, enableThinking: null, enableAudioInVideo: null, focus: null },
        ...fields,
      }
      const caller = { model: model, organisation: ORGANISATION, priority: options.priority }
      return collectReply(await conversations.startChat(request, caller, newSignal()))
    },
    close: () => resources.disposeAsync(),
  }
}
