"""What a page of metrics counts against what was sent: counted.py PAGE SENT. Each line of SENT is a status and what
became of the request for its model, `none` where it is none's."""
import collections
import re
import sys

statuses, outcomes = collections.Counter(), collections.Counter()
with open(sys.argv[1], encoding="utf-8") as file:
    for line in file:
        # other routes answered the questions of the test itself
        found = re.match(r'attentiond_http_requests_total\{route="(.*?)",method=".*?",code="(\d+)"\} (\d+)', line)
        if found and (found[1].endswith(("/infer", "/gradient")) or found[1] == ""):
            statuses[found[2]] += int(found[3])
        found = re.match(r'attentiond_requests_total\{.*outcome="(.*?)"\} (\d+)', line)
        if found:
            outcomes[found[1]] += int(found[2])
sent_statuses, sent_outcomes = collections.Counter(), collections.Counter()
with open(sys.argv[2], encoding="utf-8") as file:
    for line in file:
        status, outcome = line.split()
        sent_statuses[status] += 1
        sent_outcomes[outcome] += outcome != "none"
if +statuses == +sent_statuses and +outcomes == +sent_outcomes:
    print("the same")
else:
    print(dict(statuses - sent_statuses), dict(sent_statuses - statuses), dict(outcomes - sent_outcomes), dict(sent_outcomes - outcomes))
