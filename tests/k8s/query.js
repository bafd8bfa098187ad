// Does the adapter's query give what its name promises? promtool computes it over series that are made up.
'use strict';
const { spawnSync } = require('child_process');
const fs = require('fs');
const path = require('path');
const yaml = require('yaml');

const SUM = 'attentiond_queue_duration_seconds_sum';
const COUNT = 'attentiond_queue_duration_seconds_count';

// The query that the adapter would send for the pods a and b.
function queryFor(rule) {
    return rule.metricsQuery.replace(/<<\.LabelMatchers>>/g, 'namespace="x",pod=~"a|b|c"').replace(/<<\.GroupBy>>/g, 'pod');
}

function series(name, pod, model, values) {
    return { series: `${name}{namespace="x",pod="${pod}",model="${model}"}`, values };
}

// '' if it holds, else what promtool says. Pod a: two models, 10 requests a second that wait 2 ms and 30 that wait
// 6; pod b: none at all; pod c: came a moment ago.
function faultOf(rule, folder) {
    const test = {
        evaluation_interval: '1m',
        tests: [{
            interval: '1m',
            input_series: [
                series(SUM, 'a', 'm', '0+1.2x10'), series(COUNT, 'a', 'm', '0+600x10'),
                series(SUM, 'a', 'n', '0+10.8x10'), series(COUNT, 'a', 'n', '0+1800x10'),
                series(SUM, 'b', 'm', '0x10'), series(COUNT, 'b', 'm', '0x10'),
                series(SUM, 'c', 'm', '_x8 0 0'), series(COUNT, 'c', 'm', '_x8 0 0'),
            ],
            promql_expr_test: [{
                expr: `round(${queryFor(rule)})`,
                eval_time: '10m',
                exp_samples: [
                    { labels: '{pod="a"}', value: 5000 },
                    { labels: '{pod="b"}', value: 0 },
                    { labels: '{pod="c"}', value: 0 },
                ],
            }],
        }],
    };
    const file = path.join(folder, 'query.yaml');
    fs.writeFileSync(file, yaml.stringify(test));
    const run = spawnSync('promtool', ['test', 'rules', file], { encoding: 'utf8', timeout: 60000 });
    if (run.error) return `promtool: ${run.error.message}`;
    return run.status === 0 ? '' : run.stdout + run.stderr;
}

module.exports = { faultOf };
