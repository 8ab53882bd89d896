import { randomBytes } from 'node:crypto'
import type { Branch, Constraint } from '../../inference/engine.ts'
import type { ServedModel } from '../../inference/registry.ts'
import { thoughtWithin } from '../prompt/thinking.ts'
import type { ToolUse } from '../request/chat-request.ts'
import type { Tool } from '../request/tool.ts'
import { TOOL_SYNTAXES } from '../tools/syntaxes.ts'
import type { Grounding } from './grounding.ts'
import type { TextStage } from './reply-piece.ts'
import { MarkRemover, PLAIN, ReplyReader } from './reply-reader.ts'
import { FilteredStage } from './text-filter.ts'
import { ToolCallReader } from './tool-call-reader.ts'

export interface ReplyRequirements {
  /** What the whole reply is bound to; null for free text, which may hold annotations and tool calls. */
  readonly bound: Constraint | null
  readonly grounding: Grounding | null
  readonly tools: readonly Tool[]
  readonly toolUse: ToolUse
  /** Most tokens of a thought; null for none. */
  readonly thoughtBudget: number | null
}

/** How one completion is to be made and read: what the engine is bound to, and how its text is taken apart. */
export class ReplySpec {
  readonly #constraint: Constraint | null
  readonly #model: ServedModel
  readonly #wish: ReplyRequirements

  constructor(wish: ReplyRequirements, model: ServedModel) {
    this.#model = model
    this.#wish = wish
    this.#constraint = wish.bound ?? this.#tagConstraint()
  }

  /** What the engine keeps to, in a completion of at most `maxTokens`. */
  bounds(maxTokens: number): Pick<Branch, 'maxTokens' | 'constraint' | 'thought'> {
    const { thought: marks } = this.#model.card
    const { thoughtBudget } = this.#wish
    return {
      maxTokens,
      ...(this.#constraint === null ? {} : { constraint: this.#constraint }),
      ...(thoughtBudget === null || !marks ? {} : { thought: thoughtWithin(maxTokens, thoughtBudget, marks) }),
    }
  }

  /** For one completion. */
  createReader(): TextStage {
    const { thought = null } = this.#model.card
    const { bound, thoughtBudget } = this.#wish
    return new ReplyReader({
      thought: this.#model.served.reasoning ? thought : null,
      thinking: thoughtBudget !== null,
      content: bound === null ? this.#contentStage() : null,
    })
  }

  #contentStage(): TextStage {
    const { tools, toolUse, grounding } = this.#wish
    const { thought, toolSyntax } = this.#model.card
    let stage = PLAIN
    if (tools.length > 0) {
      const syntax = TOOL_SYNTAXES[toolSyntax!]
      stage = new ToolCallReader({ syntax, tools, single: isSingle(toolUse), newId: newCallId })
    }
    if (thought && this.#model.served.reasoning) stage = new FilteredStage(stage, () => new MarkRemover(thought))
    return grounding === null ? stage : new FilteredStage(stage, () => grounding.createFilter())
  }

  #tagConstraint(): Constraint | null {
    const { tools, toolUse, grounding } = this.#wish
    if (tools.length === 0) return grounding?.constraint ?? null
    const calls = TOOL_SYNTAXES[this.#model.card.toolSyntax!].constraint(tools, isSingle(toolUse))
    const forced = toolUse.choice !== 'auto' && toolUse.choice !== 'none'
    // A tag that must come would else be satisfied by an annotation.
    if (grounding === null || forced) return { ...calls, ...(forced ? { atLeastOne: true } : {}), param: 'tools' }
    const { triggers, tags } = grounding.constraint
    // The first tag may be an annotation, so the text cannot end with it; a second call is left out when it is read.
    return {
      type: 'triggered_tags',
      triggers: [...calls.triggers, ...triggers],
      tags: [...calls.tags, ...tags],
      param: 'tools',
    }
  }
}

/** Who names a function wants one call of it. */
function isSingle({ choice, parallel }: ToolUse): boolean {
  return !parallel || typeof choice === 'object'
}

function newCallId(): string {
  return `call_${randomBytes(12).toString('hex')}`
}
