#!/bin/sh
# An agent of four lines: it reads its task on standard input and edits a file with sed.
echo "My task: $(head -n 1)"
sed 's/if \[ $((year % 4)) -eq 0 \]; then/if [ $((year % 4)) -eq 0 ] \&\& [ $((year % 100)) -ne 0 ] || [ $((year % 400)) -eq 0 ]; then/' leap.sh > new && cat new > leap.sh && rm new
echo "I changed the condition in leap.sh."
