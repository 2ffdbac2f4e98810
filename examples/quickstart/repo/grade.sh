# Prints "pass" from 50 points on, else "fail".
if [ "$1" -gt 50 ]; then
  echo pass
else
  echo fail
fi
