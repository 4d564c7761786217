/**
 * The habits of the scripted model, each with its rate and where it is seen in real ones. They were fixed, in a commit of
 * their own, before either side was tried or tuned, and are not changed to please one. Public reports give orders of
 * magnitude, which differ from model to model; so the rates were set on a loop of nine lines that belongs to neither side
 * (ask, call the tools, put the error's text into the history, eight rounds at most) to come near what such loops show in the
 * field: a quarter of all tool calls fail, one task in ten to five is not solved. Next: model.ts, which acts by them.
 */

export const habits = {
  /**
   * Takes the task's own word for an argument where the schema has another, or leaves a field out that the task does not
   * name. Wrong parameter values are the commonest fault of calls in the Berkeley Function Calling Leaderboard.
   */
  takesTheWordOfTheTask: 0.9,
  /** Leaves a required field out though all is plain: a slip. */
  forgetsField: 0.05,
  /** Calls a tool by a name that does not exist, in the tool use papers of 2023 (Gorilla) still by the tenth call. */
  inventsTool: 0.03,

  /** Mends a refused call: told the field and what was expected; the field alone; only that something is wrong. */
  mendsToldFieldAndExpected: 0.8,
  mendsToldField: 0.5,
  mendsToldNothing: 0.2,

  /**
   * Asks for less after a timeout: told to (smaller, other arguments, another way), or told only that it took too long.
   * Else it repeats the failing query, which is what loops in public agent traces most often consist of.
   */
  narrowsToldTo: 0.85,
  narrowsToldTimeout: 0.15,
  /** Leaves any other failing call for another way. */
  leavesFailure: 0.15,
  /** Each repetition in sight makes the next likelier (Xu et al. 2022, "Learning to Break the Loop"): leaving is scaled by this. */
  repetitionFeedsItself: 0.75,
  /** Does not heed a message that tells it to stop repeating. */
  ignoresNudge: 0.25,

  /** Asks again for what it has already, to be sure. */
  checksAgain: 0.15,
  /** Says what it has found before it calls on, where others call without a word. */
  notesWhatItFound: 0.25,
  /** Asks for several independent things in one turn; else one by one. */
  asksAtOnce: 0.3,

  /**
   * Loses what lies under more than so many tokens of later messages, and asks again ("Lost in the Middle", Liu et al. 2023;
   * RULER, 2024). What is not in the request at all it always asks for again.
   */
  buriedBeyondTokens: 6_000,
  losesBuried: 0.3,
  /** Overlooks what stands in the middle of one long result, and takes the next best for it. */
  longResultTokens: 3_000,
  overlooksMiddle: 0.2,
  /** Takes a listing for whole that says it was cut. */
  trustsCut: 0.15,
  /** Asks a listing for the largest first, rather than for all of it. */
  sortsAtOnce: 0.5,

  /** Answers though it still lacks something, having found something ("premature termination", MAST, Cemri et al. 2025). */
  answersTooSoon: 0.01,
  /** Having met this many failures in a row, gives up, at this rate each turn. */
  failuresInARow: 3,
  givesUp: 0.25,
} as const;

/** How long it takes to answer, as a small hosted model does: before the first token, by prompt tokens not cached, by tokens said. */
export const pace = { firstTokenMs: 250, promptTokensPerMs: 20, msPerToken: 8 };
