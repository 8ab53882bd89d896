import { randomBytes } from 'node:crypto'
import { ignoredKeywords } from '../../inference/constraints/schema-keywords.ts'
import type { Branch, Constraint } from '../../inference/engine.ts'
import type { ServedModel } from '../../inference/registry.ts'
import { thoughtWithin } from '../prompt/thinking.ts'
import type { ToolUse } from '../request/chat-request.ts'
import type { Tool } from '../request/tool.ts'
import { TOOL_SYNTAXES } from '../tools/syntaxes.ts'
import { BeginningStage } from './beginning-stage.ts'
import type { Grounding } from './grounding.ts'
import type { TextStage } from './reply-piece.ts'
import { MarkerRemover, PLAIN, ReplyReader } from './reply-reader.ts'
import { FilteredStage } from './text-filter.ts'
import { ToolCallReader } from './tool-call-reader.ts'

export interface ReplyRequirements {
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

/** Specifies how a completion is generated and read: the engine's constraint, and the reader of its text. */
export class ReplySpec {
  readonly #constraint: Constraint | null
  readonly #model: ServedModel
  readonly #requirements: ReplyRequirements

  constructor(requirements: ReplyRequirements, model: ServedModel) {
    this.#model = model
    this.#requirements = requirements
    this.#constraint = this.#isStructured ? requirements.bound : this.#tagConstraint()
  }

  /** Whether the whole reply has the structure, because there is no tool that could be called instead. */
  get #isStructured(): boolean {
    const { bound, tools, toolUse } = this.#requirements
    return bound !== null && (tools.length === 0 || toolUse.choice === 'none')
  }

  /** The engine's limits for a completion of at most `maxTokens`. */
  bounds(maxTokens: number): Pick<Branch, 'maxTokens' | 'constraint' | 'thought'> {
    const { thought: marks } = this.#model.card
    const { thoughtBudget } = this.#requirements
    return {
      maxTokens,
      ...(this.#constraint === null ? {} : { constraint: this.#constraint }),
      ...(thoughtBudget === null || !marks ? {} : { thought: thoughtWithin(maxTokens, thoughtBudget, marks) }),
    }
  }

  /** The keywords of the client's schemas that have no effect on the reply; some of them several times. */
  get ignoredKeywords(): readonly string[] {
    const constraint = this.#constraint
    if (constraint === null) return []
    const contents =
      constraint.type === 'triggered_tags'
        ? [constraint.otherwise, ...constraint.tags.map(({ content }) => content)]
        : [constraint]
    return contents.flatMap((content) => (content?.type === 'json_schema' ? ignoredKeywords(content.schema) : []))
  }

  /** Creates the reader of one completion. */
  createReader(): ReplyReader {
    const { thought = null } = this.#model.card
    const { bound, thoughtBudget } = this.#requirements
    return new ReplyReader({
      thought: this.#model.served.reasoning ? thought : null,
      thinking: thoughtBudget !== null,
      content: this.#isStructured ? null : bound === null ? this.#contentStage() : this.#callsOrStructure(),
    })
  }

  #callsOrStructure(): TextStage {
    const { begin } = TOOL_SYNTAXES[this.#model.card.toolSyntax!]
    return new BeginningStage(begin, this.#contentStage())
  }

  #contentStage(): TextStage {
    const { tools, toolUse, grounding } = this.#requirements
    const { thought, toolSyntax } = this.#model.card
    let stage = PLAIN
    if (tools.length > 0) {
      const syntax = TOOL_SYNTAXES[toolSyntax!]
      stage = new ToolCallReader({ syntax, tools, single: isSingle(toolUse), newId: newCallId })
    }
    if (thought && this.#model.served.reasoning) stage = new FilteredStage(stage, () => new MarkerRemover(thought))
    return grounding === null ? stage : new FilteredStage(stage, () => grounding.createFilter())
  }

  #tagConstraint(): Constraint | null {
    const { bound, tools, toolUse, grounding } = this.#requirements
    if (tools.length === 0) return grounding?.constraint ?? null
    const calls = TOOL_SYNTAXES[this.#model.card.toolSyntax!].constraint(tools, isSingle(toolUse))
    const forced = toolUse.choice !== 'auto' && toolUse.choice !== 'none'
    if (bound !== null && bound.type !== 'triggered_tags' && !forced) {
      const { param, advisory: _, ...otherwise } = bound
      return { ...calls, otherwise, ...(param === undefined ? {} : { param }) }
    }
    // Without annotations, since otherwise one of them would satisfy the required tag.
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
