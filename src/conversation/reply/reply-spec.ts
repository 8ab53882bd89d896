import { randomBytes } from 'node:crypto'
import { type ThoughtMarks, USUAL_THOUGHT } from '../../families/family.ts'
import type { ServedModel } from '../../inference/catalog/registry.ts'
import { ignoredKeywords } from '../../inference/constraints/schema/schema-keywords.ts'
import { type Constraint, schemasIn, type TagContent } from '../../inference/contract/constraint.ts'
import type { Branch } from '../../inference/contract/work.ts'
import { thoughtWithin } from '../prompt/thinking.ts'
import type { ToolUse } from '../request/chat-request.ts'
import type { Tool } from '../request/tool.ts'
import type { ToolSyntax } from '../tools/syntax.ts'
import { TOOL_SYNTAXES } from '../tools/syntaxes.ts'
import { ChannelReader } from './channel-reader.ts'
import type { Grounding, RatePlaces } from './grounding.ts'
import type { TextStage } from './reply-piece.ts'
import { ReplyReader } from './reply-reader.ts'
import { BeginningStage, FilteredStage, MarkerRemover, PLAIN } from './stages.ts'
import { ToolCallReader } from './tool-call-reader.ts'

interface ReplyRequirements {
  /**
   * The constraint on the whole reply, unless it calls tools; null for free text, which may contain annotations and tool
   * calls.
   */
  readonly bound: Constraint | null
  readonly grounding: Grounding | null
  readonly tools: readonly Tool[]
  readonly toolUse: ToolUse
  /** The most tokens of the reasoning; null when reasoning is off. */
  readonly thoughtBudget: number | null
}

const FREE_TEXT: ReplyRequirements = {
  bound: null,
  grounding: null,
  tools: [],
  toolUse: { choice: 'none', parallel: false },
  thoughtBudget: null,
}

/** Specifies how a completion is generated and read: the engine's constraint, and the reader of its text. */
export class ReplySpec {
  readonly #constraint: Constraint | null
  readonly #model: ServedModel
  readonly #requirements: ReplyRequirements

  /** @param requirements none by default. */
  constructor(requirements: Partial<ReplyRequirements>, model: ServedModel) {
    this.#model = model
    this.#requirements = { ...FREE_TEXT, ...requirements }
    this.#constraint = this.#isStructured ? this.#requirements.bound : this.#tagConstraint()
  }

  /** Whether the whole reply has the structure, because the model cannot call a tool instead. */
  get #isStructured(): boolean {
    const { bound, tools, toolUse } = this.#requirements
    return bound !== null && (tools.length === 0 || toolUse.choice === 'none')
  }

  get #mayCall(): boolean {
    const { tools, toolUse } = this.#requirements
    return tools.length > 0 && toolUse.choice !== 'none'
  }

  get #syntax(): ToolSyntax | null {
    const { toolSyntax } = this.#model.card
    return toolSyntax ? TOOL_SYNTAXES[toolSyntax] : null
  }

  /** The engine's limits for a completion of at most `maxTokens`. */
  bounds(maxTokens: number): Pick<Branch, 'maxTokens' | 'constraint' | 'thought'> {
    const { thought: marks } = this.#model.card
    const { thoughtBudget } = this.#requirements
    return {
      maxTokens,
      ...(this.#constraint === null ? {} : { constraint: this.#constraint }),
      ...(thoughtBudget === null || !marks
        ? {}
        : { thought: thoughtWithin(maxTokens, thoughtBudget, this.#marksOf(marks)) }),
    }
  }

  /** A model that may call a function chooses its channel itself. */
  #marksOf(marks: ThoughtMarks): ThoughtMarks {
    const answer = this.#syntax?.answer
    if (answer === undefined || !this.#mayCall || !marks.closing.endsWith(answer)) return marks
    return { ...marks, closing: marks.closing.slice(0, -answer.length) }
  }

  /** The keywords of the client's schemas that have no effect on the reply, possibly with duplicates. */
  get ignoredKeywords(): readonly string[] {
    return this.#constraint === null ? [] : schemasIn(this.#constraint).flatMap(ignoredKeywords)
  }

  /** Undefined if the places in the reply are not rated. */
  get rate(): RatePlaces | undefined {
    return this.#mayCall ? undefined : this.#requirements.grounding?.rate
  }

  /** Creates the reader of one completion. */
  createReader(): ReplyReader {
    const { thought = USUAL_THOUGHT } = this.#model.card
    const { bound, thoughtBudget } = this.#requirements
    return new ReplyReader({
      // A model may think even if its card does not say so.
      thought,
      thinking: thoughtBudget !== null,
      content: this.#isStructured ? null : bound === null ? this.#contentStage() : this.#callsOrStructure(),
    })
  }

  #callsOrStructure(): TextStage {
    const { begin, around = [], answer } = this.#syntax!
    return answer ? this.#contentStage() : new BeginningStage([begin, ...around], this.#contentStage())
  }

  #contentStage(): TextStage {
    const { tools, toolUse, grounding, thoughtBudget } = this.#requirements
    const { thought } = this.#model.card
    const calls = { tools, single: isSingle(toolUse), newId: newCallId }
    const syntax = this.#syntax
    let stage = PLAIN
    if (syntax?.answer) {
      const hasThought = thoughtBudget !== null
      const inAnswer = !hasThought && !this.#mayCall
      stage = new ChannelReader({
        ...calls,
        inAnswer,
        hasThought,
        showsThoughts: this.#model.served.reasoning,
      })
    } else if (tools.length > 0) stage = new ToolCallReader({ ...calls, syntax: syntax! })
    if (thought && this.#model.served.reasoning) stage = new FilteredStage(stage, () => new MarkerRemover(thought))
    return grounding === null ? stage : new FilteredStage(stage, () => grounding.createFilter())
  }

  #tagConstraint(): Constraint | null {
    const { bound, tools, toolUse, grounding } = this.#requirements
    if (tools.length === 0) return grounding?.constraint ?? null
    const { constraint, answer } = this.#syntax!
    const forced = toolUse.choice !== 'auto' && toolUse.choice !== 'none'
    if (bound !== null && bound.type !== 'triggered_tags' && !forced) {
      const { param, advisory: _, ...content } = bound
      const otherwise: TagContent = answer ? { type: 'sequence', parts: [answer, content] } : content
      return { ...constraint(tools, isSingle(toolUse), true), otherwise, ...(param === undefined ? {} : { param }) }
    }
    const calls = constraint(tools, isSingle(toolUse), forced)
    // Without annotations: one of them would satisfy the required tag.
    if (!grounding?.constraint || forced)
      return { ...calls, ...(forced ? { atLeastOne: true } : { advisory: true }), param: 'tools' }
    const { triggers, tags } = grounding.constraint
    // The first tag may be an annotation, so the text cannot end after it. The reader drops a second call.
    return {
      type: 'triggered_tags',
      triggers: [...calls.triggers, ...triggers],
      tags: [...calls.tags, ...tags],
      advisory: true,
      param: 'tools',
    }
  }
}

/** A client that names a function gets exactly one call of it. */
function isSingle({ choice, parallel }: ToolUse): boolean {
  return !parallel || typeof choice === 'object'
}

function newCallId(): string {
  return `call_${randomBytes(12).toString('hex')}`
}
