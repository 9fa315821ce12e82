// The recommendation of `carob lab compare`: one worker searches, the workers of the pool make its runs.

import { Lab } from "./pool.js";

/** Returns the result of a search. If `isOver` stops it, the result uses the runs so far (null without any). `progress` gets
 *  the numbers of completed and planned runs. */
export async function recommend(link, pool, progress, isOver, workers) {
  const searcher = new Lab();
  try {
    let [done, planned] = [0, 0];
    let step = await searcher.call({ call: "search", link });
    while (!step.answer && !isOver()) {
      const { requests } = step;
      const ends = [];
      let runs = 0;
      for (const { count } of requests) ends.push(runs += count);
      planned += runs;
      progress(done, planned);
      let at = 0;
      // Messages are requested in the order of the runs; none spans two configurations.
      const request = (from, most) => {
        while (ends[at] <= from) at++;
        const count = Math.min(most, ends[at] - from);
        const first = requests[at].first + requests[at].count - (ends[at] - from);
        return { call: { call: "search-runs", link, request: { ...requests[at], first, count } }, count };
      };
      const added = [];
      await pool.spread(runs, request, (results, place) => {
        added.push(searcher.call({ call: "search-results", place, results }));
        progress(done += results.length, planned);
      }, isOver, workers);
      await Promise.all(added);
      if (!isOver()) step = await searcher.call({ call: "search-step" });
    }
    return step.answer ?? await searcher.call({ call: "search-so-far" });
  } finally {
    searcher.end();
  }
}
