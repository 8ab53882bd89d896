export { type ItemPrefix, isResponseId, itemId, newResponseId, responseOfItem } from './response-id.ts'
export { type NewResponse, Responses, type ResponsesOptions, type StoredResponse } from './responses.ts'
