export type { Caller } from './call.ts'
export type { ChatMeasure } from './chat.ts'
export { Conversations } from './conversations.ts'
export type { Answer, DecisionReply, DecisionUsage } from './decisions/decision-reply.ts'
export type { Distribution } from './decisions/probabilities.ts'
export type { DetectReply } from './detect.ts'
export type { MultilookMeasure } from './multilook.ts'
export type { MediaSource } from './prompt/media-parts.ts'
export type { MultilookEvent, MultilookUsage, PromptResult } from './reply/multilook-reply.ts'
export {
  type ChoiceEvent,
  collectReply,
  type FinishReason,
  ReplyCollector,
  type ReplyEvent,
  type ReplyFinish,
  type ReplyMessage,
  type WholeReply,
} from './reply/reply.ts'
export type { ReplyPiece } from './reply/reply-piece.ts'
export { totalUsage, type Usage } from './reply/usage.ts'
export type { ChatRequest, Structure } from './request/chat-request.ts'
export type {
  Content,
  DecisionRequest,
  Level,
  Option,
  PlacedPart,
  Question,
} from './request/decision-request.ts'
export type { DetectRequest, Exemplar } from './request/detect-request.ts'
export type {
  ContentPart,
  MediaUrl,
  Message,
  PlacedMessage,
  TextContent,
  ToolCall,
} from './request/message.ts'
export type { MultilookRequest } from './request/multilook-request.ts'
export type { ReasoningEffort, ReplyOptions, VisionConfig } from './request/reply-options.ts'
export type { Tool } from './request/tool.ts'
