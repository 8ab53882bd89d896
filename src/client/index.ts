export {
  type ClientOptions,
  type DecisionAnswer,
  type Detection,
  type Detections,
  type FinishedReply,
  LookoutClient,
  MOST_WAIT_S,
  type ModelEntry,
  type Pixel,
  type ReplyPiece,
  ServerError,
  type Usage,
} from './client.ts'
