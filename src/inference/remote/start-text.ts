import type { OpenAiModelCard } from '../../models/card.ts'
import { OpenAiWire } from './openai/openai-wire.ts'
import type { RemoteEngine } from './remote-engine.ts'
import { apiKeyOf, openEngine, type RemoteEngineOptions } from './start.ts'
import { TextExchange, type TextPrompt } from './text-exchange.ts'
import { describeTextModel } from './text-model.ts'

/**
 * Connects to the OpenAI-compatible servers of a card. Servers that do not respond yet become usable later; one that
 * does not have the model is an error.
 * @throws CardError
 */
export async function startTextEngine(
  card: OpenAiModelCard,
  options: RemoteEngineOptions = {},
): Promise<RemoteEngine<TextPrompt>> {
  const { info, warnings } = describeTextModel(card)
  for (const warning of warnings) options.logger?.warn(warning)
  const { model, parameters, constraints } = card.engine
  const wire = new OpenAiWire({
    model,
    apiKey: apiKeyOf(card),
    contextTokens: info.contextTokens,
    parameters,
    silenceMs: options.silenceMs,
  })
  const exchange = new TextExchange({
    wire,
    constraints,
    thinks: card.thought !== undefined,
    pixelsPerToken: card.image?.pixelsPerToken ?? null,
  })
  return openEngine({ card, info, exchange }, options)
}
