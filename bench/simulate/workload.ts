import type { Piece } from './prefix-cache.ts'
import { mix, Random } from './random.ts'
import { replyKey } from './replica.ts'

/** What a request asks of the replicas and the front end. Assumed, all of it: measure your own and change it here. */
export interface Request {
  readonly kind: Kind
  /** Key of what its prompts share with others': organisation and picture, or organisation alone. */
  readonly routingKey: number
  readonly pictures: number
  /** Prompts over a shared beginning. The first is sent alone, the others when it has begun. */
  readonly branches: readonly { readonly prompt: readonly Piece[]; readonly replyTokens: number }[]
}

export type Kind = 'chat' | 'multilook' | 'detect' | 'text'

const MIX: readonly { readonly kind: Kind; readonly share: number }[] = [
  { kind: 'chat', share: 0.5 },
  { kind: 'multilook', share: 0.15 },
  { kind: 'detect', share: 0.2 },
  { kind: 'text', share: 0.15 },
]

const ORGANISATIONS = 1000
/** A request is about a picture that its organisation has asked about before. */
const SAME_PICTURE = 0.4
/** Pictures that an organisation may come back to. */
const RECENT_PICTURES = 20
/** A chat is the next turn of one about the same picture. */
const NEXT_TURN = 0.5
const SYSTEM_TOKENS = 200
/** A picture of 1024 x 768 pixels at 32 pixels for each token. */
const PICTURE_TOKENS = 768
const QUESTION_TOKENS = 40
const REPLY = { chat: 150, multilook: 40, detect: 60, text: 200 }
const BRANCHES = { chat: 1, multilook: 8, detect: 3, text: 1 }
const SIGMA = 0.7
const LONGEST_REPLY = 2000

interface Conversation {
  readonly picture: number
  /** The turns after the picture. */
  readonly turns: readonly Piece[]
}

interface Organisation {
  readonly pictures: number[]
  readonly conversations: Conversation[]
}

/** Draws requests. */
export class Workload {
  readonly #random: Random
  readonly #organisations = new Map<number, Organisation>()
  #lastId = 0

  constructor(seed: number) {
    this.#random = new Random(seed)
  }

  next(): Request {
    const random = this.#random
    const id = this.#drawOrganisation()
    const organisation = this.#organisations.get(id) ?? { pictures: [], conversations: [] }
    this.#organisations.set(id, organisation)
    const kind = this.#drawKind()
    const system = { key: `s${id}`, tokens: SYSTEM_TOKENS }
    const question = () => ({ key: `q${++this.#lastId}`, tokens: QUESTION_TOKENS })
    const replyTokens = () => Math.min(LONGEST_REPLY, Math.max(1, Math.round(random.logNormal(REPLY[kind], SIGMA))))
    if (kind === 'text') {
      const branch = { prompt: [system, { ...question(), tokens: 2 * QUESTION_TOKENS }], replyTokens: replyTokens() }
      return { kind, routingKey: mix(id, 0), pictures: 0, branches: [branch] }
    }
    const { conversations } = organisation
    const goesOn = kind === 'chat' && conversations.length > 0 && random.next() < NEXT_TURN
    const before = goesOn ? conversations.splice(random.below(conversations.length), 1)[0]! : null
    const picture = before?.picture ?? this.#drawPicture(organisation)
    const beginning = [system, { key: `p${id}/${picture}`, tokens: PICTURE_TOKENS }, ...(before?.turns ?? [])]
    const branches = Array.from({ length: BRANCHES[kind] }, () => ({
      prompt: [...beginning, question()],
      replyTokens: replyTokens(),
    }))
    if (kind === 'chat') {
      const [{ prompt, replyTokens }] = branches as [(typeof branches)[0]]
      // The reply's own KV cells stay, so the next turn has them too.
      const turn = { key: replyKey(prompt), tokens: replyTokens }
      conversations.push({ picture, turns: [...prompt.slice(2), turn] })
      if (conversations.length > RECENT_PICTURES) conversations.shift()
    }
    return { kind, routingKey: mix(id, picture), pictures: 1, branches }
  }

  /** A few organisations ask most: the larger the number, the rarer. */
  #drawOrganisation(): number {
    return Math.floor(ORGANISATIONS ** this.#random.next()) - 1
  }

  #drawKind(): Kind {
    let left = this.#random.next()
    for (const { kind, share } of MIX) {
      if (left < share) return kind
      left -= share
    }
    return 'text'
  }

  #drawPicture({ pictures }: Organisation): number {
    const random = this.#random
    if (pictures.length > 0 && random.next() < SAME_PICTURE) return pictures[random.below(pictures.length)]!
    const picture = ++this.#lastId
    pictures.push(picture)
    if (pictures.length > RECENT_PICTURES) pictures.shift()
    return picture
  }
}

/** Share of the mean over the day: least at four in the morning, most at four in the afternoon. */
export function dailyCurve(hour: number): number {
  return 1 + SWING * Math.cos((2 * Math.PI * (hour - PEAK_HOUR)) / 24)
}

const SWING = 0.6
export const PEAK_HOUR = 16
